/** A DNS server of a test: it answers A and SRV questions over UDP from a table, and everything else with NXDOMAIN. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'

export interface ServedRecord {
  name: string
  port: number
  weight: number
  priority: number
}

export interface DnsTable {
  /** By name. */
  srv: Record<string, ServedRecord[]>
  a: Record<string, string[]>
  /** All questions fail. */
  broken: boolean
}

const [typeA, typeSrv] = [1, 33]

const nameBytes = (name: string) =>
  Buffer.concat([
    ...name
      .split('.')
      .filter((label) => label !== '')
      .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)])),
    Buffer.from([0]),
  ])

function uint16(...values: number[]): Buffer {
  const bytes = Buffer.alloc(2 * values.length)
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, 2 * index)
  return bytes
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = []
  let offset = 12
  for (let length = query[offset]!; length > 0; length = query[offset]!) {
    labels.push(query.toString('latin1', offset + 1, offset + 1 + length))
    offset += 1 + length
  }
  return {
    name: labels.join('.').toLowerCase(),
    type: query.readUInt16BE(offset + 1),
    end: offset + 5,
  }
}

function answersOf(table: DnsTable, name: string, type: number): Buffer[] {
  if (type === typeA)
    return (table.a[name] ?? []).map((address) => Buffer.from(address.split('.').map(Number)))
  if (type === typeSrv)
    return (table.srv[name] ?? []).map(({ name: target, port, weight, priority }) =>
      Buffer.concat([uint16(priority, weight, port), nameBytes(target)]),
    )
  return []
}

export async function dnsServer(table: DnsTable) {
  const socket = createSocket('udp4')
  const asked: string[] = []
  socket.on('message', (query, { address, port }) => {
    const { name, type, end } = questionOf(query)
    asked.push(name)
    const answers = table.broken ? [] : answersOf(table, name, type)
    const known = !table.broken && (name in table.a || name in table.srv)
    const flags = table.broken ? 0x8182 : known ? 0x8180 : 0x8183
    const response = Buffer.concat([
      query.subarray(0, 2),
      uint16(flags, 1, answers.length, 0, 0),
      query.subarray(12, end),
      ...answers.map((data) => Buffer.concat([uint16(0xc00c, type, 1, 0, 1, data.length), data])),
    ])
    socket.send(response, port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    close: () => void socket.close(),
  }
}
