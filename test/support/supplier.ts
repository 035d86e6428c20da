/** Suppliers for tests: real sockets on port 0, from well-behaved to hostile. */
import { createServer as createHttp, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo, Server, Socket } from 'node:net'
import { listenerTls, schemeOf, socketServer, type Transport, transport } from './transport.ts'

export interface TestSupplier {
  url: string
  /** Connections accepted and requests (heads) seen so far. */
  connections: number
  requests: { url: string; headers: string[]; body: string }[]
  /** Connections that closed before their answer was whole. */
  aborted: number
  close(): Promise<void>
}

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void

const listening = (server: Server) =>
  new Promise<number>((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  )

/** On port 0, with nothing counted yet; closing it ends its connections. */
async function opened(
  server: Server,
  sockets: ReadonlySet<Socket>,
  on: Transport,
): Promise<TestSupplier> {
  const port = await listening(server)
  return {
    url: `${schemeOf(on)}://127.0.0.1:${port}/openrtb`,
    connections: 0,
    requests: [],
    aborted: 0,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

/** A supplier that answers by `handler`, with node:http. */
export async function httpSupplier(handler: Handler): Promise<TestSupplier> {
  const sockets = new Set<Socket>()
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('error', () => {
      supplier.aborted++
    })
    response.on('close', () => {
      if (!response.writableFinished) supplier.aborted++
    })
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      supplier.requests.push({ url: request.url!, headers: request.rawHeaders, body })
      handler(request, response, body)
    })
  }
  const tls = listenerTls()
  const server = tls === null ? createHttp(onRequest) : createHttps(tls, onRequest)
  server.keepAliveTimeout = 60_000
  server.on('connection', (socket) => {
    supplier.connections++
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  const supplier = await opened(server, sockets, transport())
  return supplier
}

/** A supplier that is handed the socket at each whole request (heads with Content-Length only). */
export async function rawSupplier(
  handler: (socket: Socket, request: string, nth: number) => void,
  on = transport(),
): Promise<TestSupplier> {
  const sockets = new Set<Socket>()
  const accepted = (socket: Socket) => {
    supplier.connections++
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    socket.on('end', () => {
      supplier.aborted++
    })
    let seen = ''
    let nth = 0
    socket.on('data', (chunk) => {
      seen += chunk.toString('latin1')
      for (;;) {
        const head = seen.indexOf('\r\n\r\n')
        if (head < 0) return
        const length = Number(/content-length: (\d+)/i.exec(seen.slice(0, head))?.[1] ?? 0)
        if (seen.length < head + 4 + length) return
        const request = seen.slice(0, head + 4 + length)
        seen = seen.slice(head + 4 + length)
        const url = /^\w+ (\S+)/.exec(request)![1]!
        supplier.requests.push({ url, headers: [], body: request.slice(head + 4) })
        handler(socket, request, ++nth)
      }
    })
  }
  const supplier = await opened(socketServer(accepted, on), sockets, on)
  return supplier
}

/** An answer as bytes, whole and honest. */
export function answerText(status: string, body: string, headers = ''): string {
  return `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
}
