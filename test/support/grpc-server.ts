/** The gRPC server below the agent listener with some methods, and calls of Node's HTTP/2 client. */
import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
} from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { GrpcServer, grpcStatus } from '../../admin/grpc/server.ts'
import { LoopTurn } from '../../opd/base/loop-turn.ts'

export const maxMessage = 1024 * 1024

/** A server with the methods /echo, /twice (the message twice), /large (as many bytes as the message says) and /lasting. */
export async function serveGrpc(
  t: Test,
  options: { maxStreams?: number; maxConnectionAge?: number } = {},
) {
  const lasting: string[] = []
  const accepted: Socket[] = []
  const grpc = new GrpcServer({
    methods: {
      '/echo': (call) => call.reply(call.message),
      '/large': (call) => call.reply(Buffer.alloc(Number(call.message), 'x')),
      '/timeout': (call) => call.reply(Buffer.from(String(call.timeout))),
      '/refused': (call) => call.fail(grpcStatus.invalidArgument, 'not today'),
      '/lasting': (call) => {
        call.begin(call.message, () => lasting.push('left'))
        call.write(call.message)
      },
    },
    statusOf: (path) => (path === '/heartbeat' ? 200 : 404),
    turn: new LoopTurn(),
    ...{ maxMessage, maxStreams: 100, maxConnectionAge: 600_000, ...options },
  })
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {})
    accepted.push(socket)
    grpc.accept(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const ends: (() => void)[] = []
  t.teardown(() => {
    for (const end of ends) end()
    grpc.close()
    server.close()
  })
  return {
    ...{ grpc, port, lasting, accepted },
    session(settings: object = {}): ClientHttp2Session {
      const session = connectHttp2(`http://127.0.0.1:${port}`, { settings })
      session.on('error', () => {})
      ends.push(() => session.destroy())
      return session
    },
    async socket(): Promise<Socket> {
      const socket = connect(port, '127.0.0.1').setNoDelay(true)
      socket.on('error', () => {})
      ends.push(() => socket.destroy())
      await once(socket, 'connect')
      return socket
    },
  }
}

export const framed = (message: Buffer, compressed = 0) => {
  const head = Buffer.from([compressed, 0, 0, 0, 0])
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}
export const headers = (path: string, more: object = {}) => ({
  ...{ ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' },
  ...more,
})

interface Answer {
  /** Of HTTP; 0: no response. */
  status: number
  /** Status of gRPC; null: the response has no status. */
  grpc: number | null
  message: Buffer
  reset: number
}

export async function answerOf(stream: ClientHttp2Stream): Promise<Answer> {
  const parts: Buffer[] = []
  const answer = { status: 0, grpc: null as number | null }
  const read = (fields: Record<string, unknown>) => {
    if (fields[':status'] !== undefined) answer.status = Number(fields[':status'])
    if (fields['grpc-status'] !== undefined) answer.grpc = Number(fields['grpc-status'])
  }
  stream.on('response', read)
  stream.on('trailers', read)
  stream.on('data', (chunk: Buffer) => parts.push(chunk))
  stream.on('error', () => {})
  await new Promise((resolve) => stream.once('close', resolve))
  const body = Buffer.concat(parts)
  return { ...answer, message: body.subarray(5), reset: stream.rstCode ?? 0 }
}

export function ask(session: ClientHttp2Session, path: string, body: Buffer, more: object = {}) {
  const stream = session.request(headers(path, more))
  stream.end(body)
  return answerOf(stream)
}
export const call = (session: ClientHttp2Session, path: string, message: string | Buffer) =>
  ask(session, path, framed(Buffer.from(message)))
