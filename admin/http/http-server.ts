/** The HTTP server below fastify: pipelined requests in order, and problem documents for malformed heads. */
import { createServer, type RequestListener, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { pipelined, refuseBytes } from '../../opd/shared/pipelining.ts'

/** Milliseconds. */
const headTimeout = 10_000
const idleTimeout = 75_000

type HeadError = readonly [status: number, title: string, code: string]

/** Responses to malformed heads, by Node's error code. */
const headErrors: Readonly<Record<string, HeadError>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large', 'too_large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout', 'timeout'],
}
const malformed: HeadError = [400, 'Bad Request', 'malformed']

function documentOf([status, title, code]: HeadError, ...fields: string[]): string {
  const body = JSON.stringify({ type: 'about:blank', title, status, code })
  return [
    `HTTP/1.1 ${status} ${title}`,
    ...fields,
    'Connection: close',
    'Content-Type: application/problem+json',
    'Cache-Control: no-store',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n')
}

export function createHttpServer(serve: RequestListener): Server {
  const server = createServer({
    headersTimeout: headTimeout,
    requestTimeout: headTimeout,
    keepAliveTimeout: idleTimeout,
    requireHostHeader: false,
    connectionsCheckingInterval: 1000,
    maxHeaderSize: 32 * 1024,
  })
  server.setTimeout(idleTimeout)
  pipelined(server, {
    serve,
    expectationFailed: documentOf([417, 'Expectation Failed', 'expectation']),
    noTunnel: documentOf([405, 'Method Not Allowed', 'method_not_allowed'], 'Allow: GET'),
    onReset() {},
  })
  return server
}

export function onClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET') return void socket.destroy()
  refuseBytes(socket, documentOf(headErrors[error.code ?? ''] ?? malformed))
}
