/** Callers that are known by their certificates, over TLS 1.2 and 1.3, on both lanes. */
import { X509Certificate } from 'node:crypto'
import { type ConnectionOptions, connect } from 'node:tls'
import t, { type Test } from 'tap'
import { identityOf, subjectCheck } from '../../../proxy/admission/caller-certificate.ts'
import { proxySchema, routeSchema } from '../../../proxy/config.ts'
import { authority } from '../../support/authority.ts'
import { certificate } from '../../support/certificate.ts'
import { sample, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { httpSupplier } from '../../support/supplier.ts'

const serverCertificate = certificate('127.0.0.1')
const [ca, otherCa] = [authority('callers'), authority('others')]
const skip =
  serverCertificate === null || ca === null || otherCa === null ? 'openssl not found' : false

const issued = skip
  ? null
  : {
      acme: ca!.issue('acme', 1, { subject: '/O=Acme, Inc/OU=Bids/CN=acme' }),
      beta: ca!.issue('beta', 1, {
        alternatives: 'DNS:bids.beta.example,URI:spiffe://beta/bids,email:ops@beta.example',
      }),
      expired: ca!.issue('acme', -1),
      foreign: otherCa!.issue('acme'),
    }
type Holder = keyof NonNullable<typeof issued>

const certified = (pem: string) => identityOf(new X509Certificate(pem).toLegacyObject())

interface Answer {
  status: number
  code: string
}

async function world(t: Test, tls: object, lane: 'fast' | 'general' = 'fast') {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  const route = (subjects: string[]) => ({ endpoints: [supplier.url], callers: { subjects } })
  const settings = { ...serverCertificate!, clientCa: ca!.cert, ...tls }
  const proxy = await startProxy(
    {
      acme: route(['CN=acme']),
      beta: route(['bids.beta.example']),
      anyone: { endpoints: [supplier.url] },
    },
    { lane, proxy: { tls: settings } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const open = (who: Holder | null, more: ConnectionOptions = {}) =>
    connect({
      ...{ port: proxy.port, host: '127.0.0.1', rejectUnauthorized: false },
      ...(who === null ? {} : issued![who]),
      ...more,
    })
  /** Status 0: the connection was closed. */
  const bid = async (
    ssp: string,
    who: Holder | null,
    more?: ConnectionOptions,
  ): Promise<Answer> => {
    const { status, body } = await raw(proxy.port, post(`/bid/${ssp}`, '{}'), undefined, () =>
      open(who, more),
    )
    return { status, code: status === 403 ? (JSON.parse(body) as { code: string }).code : '' }
  }
  const refused = (reason: string, ssp = 'acme') =>
    sample(proxy.registry, `bidweir_refused_requests_total{ssp="${ssp}",reason="${reason}"}`)
  const closed = () =>
    sample(proxy.registry, 'bidweir_connections_closed_total{reason="client_certificate"}')
  const configure = (next: object) =>
    proxy.proxy.configure(
      proxySchema.parse({ listen: '127.0.0.1:0', tls: { ...settings, ...next } }),
    )
  return { proxy, supplier, open, bid, refused, closed, configure }
}

for (const lane of ['fast', 'general'] as const)
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const)
    t.test(
      `${lane} lane, ${version}: the certificate decides who may call`,
      { skip },
      async (t) => {
        const { bid, refused, closed } = await world(t, {}, lane)
        const only = { minVersion: version, maxVersion: version }
        t.equal((await bid('acme', 'acme', only)).status, 200)
        t.equal((await bid('beta', 'beta', only)).status, 200)
        t.equal((await bid('anyone', 'beta', only)).status, 200)
        t.same(await bid('acme', 'beta', only), { status: 403, code: 'certificate' })
        t.equal(await refused('certificate'), 1)
        for (const who of ['expired', 'foreign', null] as const)
          t.equal((await bid('anyone', who, only)).status, 0, `${who}: no request is read`)
        t.equal(await closed(), 3)
      },
    )

t.test('certificates may be optional, but none that is not valid', { skip }, async (t) => {
  const { bid, refused, closed } = await world(t, { clientAuth: 'optional' })
  t.equal((await bid('anyone', null)).status, 200)
  t.same(await bid('acme', null), { status: 403, code: 'certificate' })
  t.equal(await refused('certificate'), 1)
  t.equal((await bid('acme', 'acme')).status, 200)
  t.equal((await bid('anyone', 'foreign')).status, 0)
  t.equal(await closed(), 1)
})

t.test(
  'a change of the authority is one for new connections, tickets included',
  { skip },
  async (t) => {
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const { open, bid, configure } = await world(t, {})
      const only = { minVersion: version, maxVersion: version }
      const sessions: Buffer[] = []
      const collecting = { ...only, ...issued!.acme }
      await raw(0, post('/bid/acme', '{}'), undefined, () =>
        open('acme', collecting).on('session', (session) => sessions.push(session)),
      )
      const resumed = async (who: Holder) => {
        let isReused = false
        const { status } = await raw(0, post('/bid/acme', '{}'), undefined, () => {
          const socket = open(who, { ...only, session: sessions.at(-1)! })
          return socket.on('secureConnect', () => {
            isReused = socket.isSessionReused()
          })
        })
        return [status, isReused]
      }
      t.same(await resumed('acme'), [200, true], version)
      configure({ clientCa: otherCa!.cert })
      t.equal((await bid('acme', 'acme', only)).status, 0, 'its authority is not trusted any more')
      t.equal((await resumed('acme'))[0], 0, 'nor is its ticket')
      t.equal((await bid('acme', 'foreign', only)).status, 200)
      configure({ clientCa: undefined })
      t.equal((await bid('anyone', null, only)).status, 200, 'without an authority, anyone')
    }
  },
)

t.test('subjects name a certificate by name or by attributes', { skip }, (t) => {
  for (const [subject, who] of [
    ['acme', 'acme'],
    ['CN=acme', 'acme'],
    ['O=Acme, Inc', 'acme'],
    ['OU=Bids, O=Acme, Inc', 'acme'],
    ['O=Acme, Inc,CN=acme', 'acme'],
    ['OU=Bids, CN=beta', null],
    ['O=Acme', null],
    ['bids.beta.example', 'beta'],
    ['spiffe://beta/bids', 'beta'],
    ['ops@beta.example', 'beta'],
    ['beta.example', null],
    ['CN=bids.beta.example', null],
  ] as const) {
    const check = subjectCheck([subject])
    const found = (['acme', 'beta'] as const).filter((name) => check(certified(issued![name].cert)))
    t.same(found, who === null ? [] : [who], subject)
  }
  t.end()
})

t.test('a quoted alternative name is one name', { skip }, (t) => {
  const alternatives = '@names\n[names]\nURI=http://a/, DNS:trusted.example'
  const pem = ca!.issue('x', 1, { alternatives }).cert
  t.match(new X509Certificate(pem).subjectAltName, '"')
  t.notOk(subjectCheck(['trusted.example'])(certified(pem)))
  t.end()
})

t.test('a TLS setting that no caller could meet is a fault', { skip }, (t) => {
  const parsed = (tls: object) => proxySchema.safeParse({ tls: { ...serverCertificate, ...tls } })
  t.ok(parsed({ clientCa: ca!.cert + otherCa!.cert }).success)
  for (const [path, tls] of [
    ['clientCa', { clientCa: 'nonsense' }],
    ['clientCa', { clientCa: ca!.cert.replace('MII', 'xxx') }],
    ['ticketKey', { ticketKey: 'short' }],
  ] as const)
    t.match(parsed(tls).error?.issues, [{ path: ['tls', path] }])
  t.ok(routeSchema.parse({ callers: { subjects: ['CN=a'] } }))
  t.end()
})
