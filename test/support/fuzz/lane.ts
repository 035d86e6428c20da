/** One lane of the proxy between callers and a supplier that records what it gets; many cases at once, one a slot. */
import type { AddressInfo, Socket } from 'node:net'
import { Registry } from 'prom-client'
import type { Test } from 'tap'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { createProxy } from '../../../proxy/proxy.ts'
import { idleEngine } from '../proxy.ts'
import { responsesOf } from '../responses.ts'
import { callTo, listenerTls, schemeOf, socketServer, type Transport } from '../transport.ts'
import type { FuzzedAnswer } from './answers.ts'

/** Suppliers whose names do not become one another by a few mutations. */
export const slots = [...'abcdefghijklmnopqrstuvwyz'].map((letter) => letter.repeat(8))

const slotOf = (text: string) => /([a-wyz])\1{4,}/i.exec(text)?.[1]?.toLowerCase().repeat(8) ?? ''

export const canary = '"canary"'
const fresh = '"fresh"'
export const bid = (slot: string, body: string, fields = '') =>
  `POST /bid/${slot} HTTP/1.1\r\nHost: ${slot}.example\r\n${fields}Content-Length: ${body.length}\r\n\r\n${body}`

/** The fields that each client of HTTP writes in its own spelling and place. */
const framing = /\r\n(host|content-length|connection): ([^\r]*)/gi

/** A request as the supplier got it, its framing apart. */
function recorded(head: string, body: string): string {
  const framings = [...head.matchAll(framing)].map(
    ([, name, value]) => `${name!.toLowerCase()}: ${value}`,
  )
  const kept = framings.filter((line) => line !== 'connection: keep-alive').sort()
  return `${head.replace(framing, '')}${kept.join('\n')}\n\n${body}`
}

export interface Conversation {
  bytes: string
  closed: boolean
}

/** Head and body of each request on a connection, the body out of its chunks. */
function requestReader(onRequest: (head: string, body: string) => void) {
  let seen = ''
  return (chunk: Buffer) => {
    seen += chunk.toString('latin1')
    for (let end = seen.indexOf('\r\n\r\n'); end >= 0; end = seen.indexOf('\r\n\r\n')) {
      const head = seen.slice(0, end + 4)
      // As a response it has the same framing; without a field of it, no body.
      const framed = /\r\n(content-length|transfer-encoding):/i.test(head)
      const [read] =
        responsesOf(
          `HTTP/1.1 200 \r\n${framed ? seen.slice(seen.indexOf('\r\n') + 2) : 'A: b\r\nContent-Length: 0\r\n\r\n'}`,
        ) ?? []
      if (read === undefined || !read.complete) return
      const coded = /\r\ntransfer-encoding:/i.test(head)
      const to = coded ? seen.indexOf('0\r\n\r\n', end + 4) + 5 : end + 4 + read.body.length
      onRequest(head, read.body)
      seen = seen.slice(to)
    }
  }
}

export async function laneWorld(
  t: Test,
  lane: 'fast' | 'general',
  transport: Transport,
  route: object,
) {
  const forwarded = new Map<string, string[]>(slots.map((slot) => [slot, []]))
  const scripts = new Map<string, FuzzedAnswer>()
  const sockets = new Set<Socket>()
  let origin = ''
  const reply = (socket: Socket, slot: string, body: string) => {
    const script = body === canary || body === fresh ? undefined : scripts.get(slot)
    if (script === undefined)
      return void socket.write(
        `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
        'latin1',
      )
    const { bytes, cut, closes } = script
    if (cut > 0) socket.write(bytes.slice(0, cut), 'latin1')
    setImmediate(() => {
      socket.write(bytes.slice(cut), 'latin1')
      if (closes) socket.end()
    })
  }
  const server = socketServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
    const onRequest = (head: string, body: string) => {
      const slot = slotOf(head + body)
      if (body !== fresh)
        forwarded.get(slot)?.push(recorded(head.replaceAll(origin, 'ORIGIN'), body))
      reply(socket, slot, body)
    }
    socket.on('data', requestReader(onRequest))
  }, transport)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  origin = `127.0.0.1:${(server.address() as AddressInfo).port}`
  const tls = listenerTls(transport)
  const url = `${schemeOf(transport)}://${origin}`
  const proxy = createProxy(
    proxySchema.parse({
      listen: '127.0.0.1:0',
      ...(tls === null ? {} : { tls }),
      fastLane: lane === 'fast',
      headTimeout: '400ms',
      keepAlive: '1s',
    }),
    slots.map((id) => ({
      ...routeSchema.parse({
        endpoints: [`${url}/${id}`],
        passThrough: url,
        onFailure: 'status',
        ...route,
      }),
      id,
    })),
    {
      engine: idleEngine(),
      registry: new Registry(),
      log: { info() {}, warn() {}, error() {} },
    },
  )
  const { port } = await proxy.listen()
  t.teardown(async () => {
    const closed = proxy.close()
    proxy.destroy()
    for (const socket of sockets) socket.destroy()
    server.close()
    await closed
  })

  /** Sends `first`; `second` behind its response. Over when `done` says so, or the connection closes. */
  const converse = (first: string, second: string | null, done: (text: string) => boolean) =>
    new Promise<Conversation>((resolve) => {
      const socket = callTo(port, {}, transport)
      let bytes = ''
      let waits = second !== null
      socket.write(first, 'latin1')
      socket.on('error', () => {})
      socket.on('close', () => resolve({ bytes, closed: true }))
      socket.on('data', (chunk) => {
        bytes += chunk.toString('latin1')
        if (
          waits &&
          responsesOf(bytes)?.some(({ status, complete }) => status >= 200 && complete)
        ) {
          waits = false
          socket.write(second!, 'latin1')
        }
        if (!done(bytes)) return
        resolve({ bytes, closed: false })
        socket.destroy()
      })
    })

  /** A good bid on a connection of its own, and whether it was answered as it should. */
  const isWell = async (slot: string) => {
    const { bytes } = await converse(bid(slot, fresh, 'Connection: close\r\n'), null, () => false)
    return /^HTTP\/1\.1 200 OK\r\n/.test(bytes) && bytes.endsWith(`\r\n\r\n${fresh}`)
  }

  return {
    converse,
    isWell,
    answerWith: (slot: string, answer: FuzzedAnswer) => void scripts.set(slot, answer),
    /** What the supplier of a slot got since the last call. */
    taken: (slot: string) => forwarded.get(slot)!.splice(0),
  }
}
