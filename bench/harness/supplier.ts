/** The supplier of the benchmarks: raw sockets and ready bytes, so that it is never the bottleneck. A child process. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { mix, responses } from './traffic.ts'

const headEnd = Buffer.from('\r\n\r\n')
const lastChunk = Buffer.from('0\r\n\r\n')
const idAt = Buffer.from('{"id":"')
const idLength = 36
let served = 0

/** The response, with the id of the request that `data` begins with. */
function responseTo(data: Buffer): Buffer {
  const kind = /^POST \S*[?&]kind=([\w-]+)/.exec(data.toString('latin1', 0, 200))?.[1]
  const response = ((kind && responses[kind]) || mix[served++ % mix.length]!)()
  const from = data.indexOf(idAt)
  const to = response.indexOf(idAt)
  if (from >= 0 && to >= 0)
    data.copy(response, to + idAt.length, from + idAt.length, from + idAt.length + idLength)
  return response
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
      socket.write(responseTo(data))
      data = data.subarray(length)
    }
  })
  // Proxies are stopped with their connections open.
  socket.on('error', () => socket.destroy())
}

const server = createServer(serve)
server.listen({ port: 0, host: '127.0.0.1', backlog: 8192 }, () =>
  process.send!((server.address() as AddressInfo).port),
)
