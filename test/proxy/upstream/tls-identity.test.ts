/** `tls` of a supplier: whom bidweir trusts, and who it is to the endpoints, on both lanes. */
import { once } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { createServer, type TLSSocket, type TlsOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { type Authority, authority } from '../../support/authority.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { answerText } from '../../support/supplier.ts'

const partner = authority('Partner')!
const other = authority('Other')!
const clients = authority('Clients of the partner')!
const skip = partner === null ? 'openssl not found' : false
const server = partner?.issue('127.0.0.1')

interface Handshake {
  client: string | null
  reused: boolean
  name: string | false | null
  protocol: string | null
}

/** An endpoint that notes each handshake; with `ca` it wants a client certificate. */
async function endpoint(t: Test, options: TlsOptions = {}, ca: Authority | null = null) {
  const handshakes: Handshake[] = []
  const sockets = new Set<Socket>()
  const accept = (socket: TLSSocket) => {
    const reused = socket.isSessionReused()
    const subject = socket.getPeerCertificate().subject?.CN
    handshakes.push({
      ...{ reused, client: subject === undefined ? null : String(subject) },
      ...{ name: (socket as { servername?: string | false }).servername ?? null },
      protocol: socket.getProtocol(),
    })
    socket.on('error', () => {})
    socket.on('data', () => socket.write(answerText('200 OK', '{}')))
  }
  const listener = createServer(
    {
      ...{ ...server, ...options },
      ...(ca === null ? {} : { requestCert: true, rejectUnauthorized: true, ca: ca.cert }),
    },
    accept,
  )
  listener.on('connection', (socket) => void sockets.add(socket)).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    listener.close()
  })
  const { port } = listener.address() as AddressInfo
  return { url: `https://127.0.0.1:${port}/bid`, handshakes }
}

for (const lane of ['fast', 'general'] as const) {
  const world = async (t: Test, url: string, tls: object) => {
    const route = (tls: object) => ({ endpoints: [url], tls: tls, onFailure: 'status' })
    const proxy = await startProxy({ acme: route(tls) }, { lane })
    t.teardown(() => proxy.close())
    return {
      proxy,
      status: async () => (await raw(proxy.port, post('/bid/acme', '{}'))).status,
      reload: (tls: object) => proxy.setSupplier('acme', route(tls)),
      /** What the log says of the failure. */
      fault: () => JSON.stringify(proxy.lines),
    }
  }
  const ca = () => partner.cert

  t.test(`${lane} lane: an endpoint of a private authority is trusted`, { skip }, async (t) => {
    const { url, handshakes } = await endpoint(t)
    const { status, reload, fault } = await world(t, url, { ca: ca() })
    t.equal(await status(), 200)
    t.equal(await status(), 200)
    t.equal(handshakes.length, 1)
    reload({ ca: other.cert })
    t.equal(await status(), 502, 'after a change of the authority, its connection is not used')
    t.match(fault(), /certificate/)
    reload({ ca: `${other.cert}${ca()}` })
    t.equal(await status(), 200, 'of several authorities one is enough')
  })

  t.test(`${lane} lane: a certificate that has expired is refused`, { skip }, async (t) => {
    const { url } = await endpoint(t, partner.issue('127.0.0.1', -1))
    const { status, fault } = await world(t, url, { ca: ca() })
    t.equal(await status(), 502)
    t.match(fault(), /expired/)
  })

  t.test(`${lane} lane: the name may be another than the host`, { skip }, async (t) => {
    const named = await endpoint(t, partner.issue('bid.partner.example'))
    const { status, reload, fault } = await world(t, named.url, { ca: ca() })
    t.equal(await status(), 502)
    t.match(fault(), /does not match|altnames/)
    reload({ ca: ca(), servername: 'bid.partner.example' })
    t.equal(await status(), 200)
    t.equal(named.handshakes.at(-1)!.name, 'bid.partner.example', 'and it is sent')
    reload({ ca: ca(), servername: 'other.partner.example' })
    t.equal(await status(), 502)
  })

  t.test(
    `${lane} lane: an endpoint that wants a client certificate gets it`,
    { skip },
    async (t) => {
      const { url, handshakes } = await endpoint(t, {}, clients)
      const first = clients.issue('first.example')
      const { status, reload, proxy } = await world(t, url, { ca: ca() })
      t.equal(await status(), 502, 'without one')
      reload({ ca: ca(), ...other.issue('stranger.example') })
      t.equal(await status(), 502, 'of another authority')
      reload({ ca: ca(), ...first })
      t.equal(await status(), 200)
      t.equal(handshakes.at(-1)!.client, 'first.example')
      const count = handshakes.length
      reload({ ca: ca(), ...clients.issue('second.example') })
      t.equal(await status(), 200)
      t.equal(handshakes.length, count, 'a new certificate closes no connection')
      const { pool } = proxy.proxy.suppliers.get('acme')!.endpoints.all[0]!
      pool.acquire(false, performance.now()).destroy()
      t.equal(await status(), 200)
      t.match(
        handshakes.at(-1),
        { client: 'second.example', reused: false },
        'the next connection has it, and no session of the former one',
      )
      const line = (certificate: string) =>
        sample(
          proxy.registry,
          `bidweir_supplier_certificate_expiry_timestamp_seconds{ssp="acme",certificate="${certificate}"}`,
        )
      const days = async (certificate: string) =>
        Math.round((await line(certificate)) / 86_400 - Date.now() / 86_400_000)
      t.same([await days('client'), await days('ca')], [1, 10])
    },
  )

  t.test(
    `${lane} lane: only an endpoint with the pinned key gets requests`,
    { skip },
    async (t) => {
      const { url } = await endpoint(t)
      const { status, reload, fault } = await world(t, url, {
        ...{ ca: ca(), pin: `sha256//${Buffer.alloc(32).toString('base64')}` },
      })
      t.equal(await status(), 502)
      const found = /sha256\/\/[A-Za-z0-9+/]{43}=/.exec(fault())![0]
      reload({ ca: ca(), pin: [`sha256//${Buffer.alloc(32).toString('base64')}`, found] })
      t.equal(await status(), 200)
      reload({ ca: other.cert, pin: found })
      t.equal(await status(), 502, 'a pin does not replace the authority')
    },
  )

  t.test(`${lane} lane: a version below minVersion is refused`, { skip }, async (t) => {
    const { url, handshakes } = await endpoint(t, { maxVersion: 'TLSv1.2' })
    const { status, reload } = await world(t, url, { ca: ca() })
    t.equal(await status(), 200)
    t.equal(handshakes[0]!.protocol, 'TLSv1.2')
    reload({ ca: ca(), minVersion: 'TLSv1.3' })
    t.equal(await status(), 502)
  })
}

t.test(
  'suppliers with different identities at one endpoint share no session',
  { skip },
  async (t) => {
    const { url, handshakes } = await endpoint(t, {}, clients)
    const tls = (name: string) => ({ ca: partner.cert, ...clients.issue(name) })
    const proxy = await startProxy({
      acme: { endpoints: [url], tls: tls('acme.example') },
      bolt: { endpoints: [url], tls: tls('bolt.example') },
    })
    t.teardown(() => proxy.close())
    for (const id of ['acme', 'bolt', 'acme', 'bolt']) {
      t.equal((await raw(proxy.port, post(`/bid/${id}`, '{}'))).status, 200)
      const { pool } = proxy.proxy.suppliers.get(id)!.endpoints.all[0]!
      pool.acquire(false, performance.now()).destroy()
    }
    t.match(handshakes, [
      { client: 'acme.example', reused: false },
      { client: 'bolt.example', reused: false },
      { client: 'acme.example', reused: true },
      { client: 'bolt.example', reused: true },
    ])
  },
)
