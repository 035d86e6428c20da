/** Messages that are put together in one buffer: what a socket has not sent yet is not overwritten by the next message. */
import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { test } from 'tap'
import { writeMessage } from '../../../proxy/wire/outgoing-heads.ts'
import { callTo, established, socketServer, transport } from '../../support/transport.ts'
import { until } from '../../support/until.ts'

const head = 'POST /bid HTTP/1.1\r\nContent-Length: '
const expected = (bodies: readonly string[]) =>
  bodies.map((body) => `${head}${body.length}\r\n\r\n${body}`).join('')

/** Two ends of each of two connections. */
async function connections() {
  const event = transport() === 'tls' ? 'secureConnection' : 'connection'
  const server = socketServer((socket) => socket.pause()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const open = async (): Promise<[Socket, Socket]> => {
    const near = callTo(port)
    const [[far]] = await Promise.all([once(server, event), established(near)])
    return [near, far as Socket]
  }
  return { slow: await open(), quick: await open(), server }
}

test('a reader that is slow gets what was written, whatever others are sent meanwhile', async (t) => {
  const { slow, quick, server } = await connections()
  t.teardown(() => server.close())
  const sent: string[] = []
  // Until the kernel takes no more.
  for (let digit = 0; slow[0].writableLength === 0; digit = (digit + 1) % 10) {
    sent.push(String(digit).repeat(9000))
    writeMessage(slow[0], head, sent.at(-1)!)
  }
  const others = ['a', 'bcd', 'e'.repeat(12_000), 'f'.repeat(20_000)]
  for (const body of others) {
    writeMessage(quick[0], head, body)
    writeMessage(slow[0], head, body)
  }
  for (const [near] of [slow, quick]) near.end()
  const [first, second] = await Promise.all([buffer(slow[1]), buffer(quick[1])])
  t.equal(first.toString('latin1'), expected([...sent, ...others]))
  t.equal(second.toString('latin1'), expected(others))
})

test('messages written before their sockets are connected', async (t) => {
  const bodies = ['one', 'two']
  const received: Promise<Buffer>[] = []
  const server = socketServer((far) => received.push(buffer(far))).listen(0, '127.0.0.1')
  await once(server, 'listening')
  for (const body of bodies) {
    const near = callTo((server.address() as AddressInfo).port)
    writeMessage(near, head, body)
    near.end().resume()
  }
  await until(() => received.length === bodies.length)
  const texts = (await Promise.all(received)).map((bytes) => bytes.toString('latin1'))
  t.strictSame(texts.sort(), bodies.map((body) => expected([body])).sort())
  server.close()
})

test('a body of bytes', async (t) => {
  const { slow, quick, server } = await connections()
  t.teardown(() => server.close())
  quick[0].destroy()
  for (const length of [0, 5, 16_000, 40_000])
    writeMessage(slow[0], head, Buffer.alloc(length, 'x'))
  slow[0].end()
  const bodies = [0, 5, 16_000, 40_000].map((length) => 'x'.repeat(length))
  t.equal((await buffer(slow[1])).toString('latin1'), expected(bodies))
})

test('messages that wait for a slow reader take their own length of memory', async (t) => {
  const { slow, quick, server } = await connections()
  t.teardown(() => {
    for (const socket of [...slow, ...quick]) socket.destroy()
    server.close()
  })
  while (slow[0].writableLength === 0) slow[0].write(Buffer.alloc(100_000))
  const before = process.memoryUsage().arrayBuffers
  for (let n = 0; n < 400; n++) writeMessage(slow[0], head, 'x'.repeat(300))
  const taken = process.memoryUsage().arrayBuffers - before
  t.ok(taken < 400_000, `${taken} bytes for 400 messages of 343`)
})
