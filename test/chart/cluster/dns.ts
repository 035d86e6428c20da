/** DNS of the cluster: names of Services, asked of the API server. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { ControlPlane } from './control-plane.ts'

const suffix = /^([^.]+)\.([^.]+)\.svc\.cluster\.local$/

export async function serveDns({ api }: ControlPlane, address: string): Promise<() => void> {
  const socket = createSocket('udp4')
  const resolve = async (name: string): Promise<string | null> => {
    const [, service, namespace] = suffix.exec(name) ?? []
    if (service === undefined) return null
    const { body } = await api('GET', `/api/v1/namespaces/${namespace}/services/${service}`)
    return body.spec?.clusterIP ?? null
  }
  socket.on('message', async (query, from) => {
    // RFC 1035 4.1: a header of 12 bytes, then one question
    const labels: string[] = []
    let offset = 12
    for (; query[offset] !== 0; offset += query[offset]! + 1)
      labels.push(query.subarray(offset + 1, offset + 1 + query[offset]!).toString())
    const ip = await resolve(labels.join('.').toLowerCase()).catch(() => null)
    const isA = query.readUInt16BE(offset + 1) === 1
    const head = Buffer.from(query.subarray(0, offset + 5))
    head.writeUInt16BE(ip === null ? 0x8583 : 0x8580, 2)
    head.writeUInt16BE(ip !== null && isA ? 1 : 0, 6)
    head.writeUInt32BE(0, 8)
    const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, ...(ip ?? '').split('.').map(Number)]
    socket.send(
      ip !== null && isA ? Buffer.concat([head, Buffer.from(record)]) : head,
      from.port,
      from.address,
    )
  })
  socket.bind(53, address)
  await once(socket, 'listening')
  return () => socket.close()
}
