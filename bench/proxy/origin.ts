/** The supplier of the benchmark: raw sockets and ready bytes, so that it is never the bottleneck. A child process. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { answers, mix } from './bodies.ts'

const headEnd = Buffer.from('\r\n\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')
let served = 0

function answerFor(head: string): Buffer {
  const kind = /^POST \S*[?&]kind=([\w-]+)/.exec(head)?.[1]
  return (kind === undefined ? undefined : answers[kind]) ?? mix[served % mix.length]!
}

/** Length of the first whole request in `data`, or 0. */
function whole(data: Buffer): number {
  const end = data.indexOf(headEnd)
  if (end < 0) return 0
  const head = data.toString('latin1', 0, end)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined && /\r\ntransfer-encoding:/i.test(head)) {
    const last = data.indexOf(lastChunk, end + 4)
    return last < 0 ? 0 : last + 5
  }
  const total = end + 4 + Number(length ?? 0)
  return data.length < total ? 0 : total
}

function serve(socket: Socket): void {
  let data: Buffer = Buffer.alloc(0)
  socket.setNoDelay(true)
  socket.on('data', (chunk: Buffer) => {
    data = data.length === 0 ? chunk : Buffer.concat([data, chunk])
    for (let length = whole(data); length > 0; length = whole(data)) {
      socket.write(answerFor(data.toString('latin1', 0, Math.min(length, 400))))
      served++
      data = data.subarray(length)
    }
  })
  // A proxy that ends is part of the benchmark's life.
  socket.on('error', () => socket.destroy())
}

const server = createServer(serve)
server.listen({ port: 0, host: '127.0.0.1', backlog: 8192 }, () =>
  process.send!({ port: (server.address() as AddressInfo).port }),
)

process.on('message', () => {
  const { user, system } = process.cpuUsage()
  process.send!({ cpu: user + system, served })
})
