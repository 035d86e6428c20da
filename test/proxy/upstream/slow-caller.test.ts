/** A connection to a supplier that waits for a slow caller, and its next request. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer, setDefaultCACertificates } from 'node:tls'
import t from 'tap'
import { FastClient } from '../../../proxy/upstream/fast-client.ts'
import { HeadTemplates } from '../../../proxy/wire/head-templates.ts'
import { OutgoingRequest, RequestStart } from '../../../proxy/wire/outgoing-heads.ts'
import { systemTls } from '../../../proxy/wire/tls-identity.ts'
import { TlsSessions } from '../../../proxy/wire/tls-sessions.ts'
import { certificate } from '../../support/certificate.ts'

const pair = certificate('localhost')
const skip = pair === null ? 'openssl not found' : false

t.test(
  'a TLS connection whose response ended while its caller was slow reads the next response',
  { skip },
  async (t) => {
    if (pair === null) return
    setDefaultCACertificates([pair.cert])
    // The first response takes several records, which arrive in one read.
    let requests = 0
    const server = createServer(pair, (socket) => {
      socket.on('error', () => {})
      socket.on('data', () => {
        const body = Buffer.alloc(++requests === 1 ? 48 * 1024 : 2, 'x')
        const head = Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n`)
        socket.write(Buffer.concat([head, body]))
      })
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    const released = Promise.withResolvers<void>()
    const pool = {
      released: () => released.resolve(),
      removed() {},
      connectFailed() {},
    }
    const client = new FastClient(
      {
        host: '127.0.0.1',
        port,
        lookup: (_host: string, _options: object, done: (...found: never[]) => void) =>
          done(...([null, [{ address: '127.0.0.1', family: 4 }]] as never[])),
        tls: new TlsSessions('localhost', systemTls),
      } as never,
      pool as never,
      new HeadTemplates(4),
    )
    t.teardown(() => {
      client.destroy()
      server.close()
    })
    const request = new OutgoingRequest(new RequestStart('/', ['Host', 'localhost']))
    const receive = (flowing: boolean) =>
      new Promise<void>((resolve, reject) => {
        client.dispatch(request, '{}', {
          head() {},
          data: () => flowing,
          end: () => resolve(),
          fail: (failure: { error: Error }) => reject(failure.error),
        } as never)
      })
    await receive(false)
    await released.promise
    await receive(true)
    t.equal(requests, 2)
  },
)
