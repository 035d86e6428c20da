/** The supplier of the benchmarks, a child process: raw sockets and prepared bytes, so that it is never the bottleneck. */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTls } from 'node:tls'
import { mulberry32 } from '../../opd/base/random.ts'
import { certificate } from '../../test/support/certificate.ts'
import { firstMessage, mix, responses } from './traffic.ts'

export interface Ports {
  port: number
  /** The same over TLS, with a self-signed certificate; null where openssl is absent. */
  tls: { port: number; cert: string; key: string } | null
}

const idAt = Buffer.from('{"id":"')
const idLength = 36

/** The same order in each run. */
const random = mulberry32(1)
/** Of a hundred responses, those that were not sent yet. */
let left: (() => Buffer)[] = []
/** In no order: a caller that asks for suppliers in turn would get the same kind of response from a supplier each time. */
function nextOfMix(): Buffer {
  if (left.length === 0) left = [...mix]
  const place = Math.floor(random() * left.length)
  const response = left[place]!
  left[place] = left.at(-1)!
  left.length--
  return response()
}

const dateAt = Buffer.from('Date: ')
let date = Buffer.alloc(0)
/** As all servers do: the head of a response is another one each second. */
function renewDate(): void {
  date = Buffer.from(new Date().toUTCString())
}
renewDate()
setInterval(renewDate, 1000)

/** The response, with the id of the request that `data` begins with, and the `Date` of now. */
function responseTo(data: Buffer): Buffer {
  const kind = /^POST \S*[?&]kind=([\w-]+)/.exec(data.toString('latin1', 0, 200))?.[1]
  const response = kind !== undefined && responses[kind] ? responses[kind]() : nextOfMix()
  const from = data.indexOf(idAt)
  const to = response.indexOf(idAt)
  if (from >= 0 && to >= 0)
    data.copy(response, to + idAt.length, from + idAt.length, from + idAt.length + idLength)
  date.copy(response, response.indexOf(dateAt) + dateAt.length)
  return response
}

function serve(socket: Socket): void {
  let data: Buffer = Buffer.alloc(0)
  socket.setNoDelay(true)
  socket.on('data', (chunk: Buffer) => {
    data = data.length === 0 ? chunk : Buffer.concat([data, chunk])
    for (let found = firstMessage(data); found !== null; found = firstMessage(data)) {
      socket.write(responseTo(data))
      data = data.subarray(found.length)
    }
  })
  // Proxies are stopped with their connections open.
  socket.on('error', () => socket.destroy())
}

const address = { port: 0, host: '127.0.0.1', backlog: 8192 }
const listening = (server: Server) =>
  new Promise<number>((resolve) =>
    server.listen(address, () => resolve((server.address() as AddressInfo).port)),
  )
const pair = certificate('127.0.0.1')
process.send!({
  port: await listening(createServer(serve)),
  tls: pair && { port: await listening(createTls(pair, serve)), ...pair },
} satisfies Ports)
