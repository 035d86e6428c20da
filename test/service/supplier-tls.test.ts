/** The files that `tls` of a supplier names: watched, checked, and changed under traffic without a lost request. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import t, { type Test } from 'tap'
import { loadConfig } from '../../service/config/load.ts'
import { blockFaults, referenceRules } from '../../service/config/supplier-block.ts'
import { warningsOf } from '../../service/config/warnings.ts'
import { suppliersOf } from '../support/api-suppliers.ts'
import { authority } from '../support/authority.ts'
import { folder as configs, file } from '../support/config.ts'
import { newFolder } from '../support/process.ts'
import { serveNode } from '../support/served-node.ts'
import { until } from '../support/until.ts'

const partner = authority('Partner')!
const clients = authority('Clients')!
const skip = partner === null ? 'openssl not found' : false

/** An endpoint that wants a client certificate; `names` has the names of those that sent requests. */
async function partnerEndpoint(t: Test) {
  const names: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer(
    {
      ...partner.issue('127.0.0.1'),
      ...{ requestCert: true, rejectUnauthorized: true, ca: clients.cert },
    },
    (request, response) => {
      names.push(String((request.socket as TLSSocket).getPeerCertificate().subject.CN))
      request.resume().on('end', () => response.writeHead(204, { connection: 'close' }).end())
    },
  )
  server.on('connection', (socket) => void sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { url: `https://127.0.0.1:${port}/bid`, names }
}

t.test('certificates change under traffic, of the file and of the API', { skip }, async (t) => {
  const { url, names } = await partnerEndpoint(t)
  const folder = newFolder()
  mkdirSync(join(folder, 'tls'))
  const write = (name: string) => {
    const { cert, key } = clients.issue(name)
    writeFileSync(join(folder, 'tls/client.pem'), cert)
    writeFileSync(join(folder, 'tls/client.key'), key)
  }
  write('first.example')
  writeFileSync(join(folder, 'tls/ca.pem'), partner.cert)
  const tls = {
    ...{ ca: { file: 'tls/ca.pem' }, cert: { file: 'tls/client.pem' } },
    key: { file: 'tls/client.key' },
  }
  const node = await serveNode({
    ...{ endpoint: url, folder },
    suppliers: [`id: filed, tls: ${JSON.stringify(tls)}`],
  })
  t.teardown(() => node.stop())
  const { call, bid } = suppliersOf(node)
  const block = { id: 'acme', endpoints: [url], timeout: '20s' }
  const added = await call('POST', '', { ...block, tls })
  t.equal(added.status, 201, JSON.stringify(added.body))
  t.same((await call('GET', 'acme/')).body.tls, tls, 'references are shown, not what they have')
  const shown = JSON.stringify((await call('GET', 'filed/')).body)
  t.notMatch(shown, /BEGIN (EC )?PRIVATE KEY/)

  for (const id of ['filed', 'acme']) t.equal(await bid(id), 204, id)
  t.strictSame(new Set(names), new Set(['first.example']))
  write('second.example')
  const lost: string[] = []
  await until(async () => {
    names.length = 0
    for (const id of ['filed', 'acme']) {
      const status = await bid(id)
      if (status !== 204) lost.push(`${id}: ${status}`)
    }
    return names.every((name) => name === 'second.example')
  })
  t.same(lost, [])
})

const faultsOf = (tls: string) =>
  loadConfig(
    file(`suppliers:\n  - {id: acme, endpoints: ["https://x/"], tls: ${tls}}\n`),
  ).faults.map(({ path, found, allowed }) => `${path}: ${found}: ${allowed}`)

t.test('faults of certificates name their place, and repeat no key', { skip }, (t) => {
  const [one, two] = [clients.issue('one.example'), clients.issue('two.example')]
  for (const [name, text] of Object.entries({
    'one.pem': one.cert,
    'one.key': one.key,
    'two.key': two.key,
    'broken.pem': `${one.cert.slice(0, 200)}\n-----END CERTIFICATE-----\n`,
  }))
    writeFileSync(join(configs, name), text)
  t.same(faultsOf('{cert: {file: one.pem}, key: {file: one.key}}'), [])
  for (const [tls, fault] of [
    ['{cert: {file: one.pem}}', /^suppliers\[0\]\.tls\.key: .*the private key of tls\.cert/],
    ['{key: {file: one.key}}', /^suppliers\[0\]\.tls\.cert: .*the certificate of tls\.key/],
    ['{cert: {file: one.pem}, key: {file: two.key}}', /tls\.key: .*the private key of tls\.cert/],
    ['{ca: {file: broken.pem}}', /tls\.ca: the value of .*: certificates in PEM/],
    ['{ca: hello}', /tls\.ca: .*certificates in PEM/],
    ['{pin: sha1//x}', /tls\.pin: .*sha256\/\//],
    ['{minVersion: TLSv1.1}', /tls\.minVersion: .*"TLSv1.2" \| "TLSv1.3"/],
    ['{servername: "a b"}', /tls\.servername: .*a host name/],
    ['{cipher: x}', /tls\.cipher: a key that is not known/],
  ] as const) {
    const faults = faultsOf(tls)
    t.match(faults, [fault], tls)
    t.notMatch(faults.join(), /BEGIN|MII/)
  }
  t.end()
})

t.test('a supplier of the API names its key, and may have certificates in place', { skip }, (t) => {
  const { cert, key } = clients.issue('api.example')
  writeFileSync(join(configs, 'api.key'), key)
  const rules = referenceRules(
    configs,
    () => [],
    () => false,
  )
  const faults = (tls: object) => blockFaults({ id: 'acme', endpoints: ['https://x/'], tls }, rules)
  t.same(faults({ ca: partner.cert, cert, key: { file: 'api.key' } }), [])
  t.match(faults({ cert, key }), [{ pointer: '/tls/key', detail: /a reference to the secret/ }])
  t.notMatch(JSON.stringify(faults({ cert, key })), /PRIVATE/)
  t.match(faults({ servername: { file: 'api.key' } }), [{ pointer: '/tls/servername' }])
  t.end()
})

t.test('tls of a supplier whose endpoints are plain is a warning', { skip }, (t) => {
  const warnings = (url: string) =>
    warningsOf(
      loadConfig(file(`suppliers: [{id: acme, endpoints: ["${url}"], tls: {}}]\n`)).config!,
    ).filter((line) => line.includes('tls'))
  t.match(warnings('http://x/'), [/tls has no effect/])
  t.same(warnings('https://x/'), [])
  t.end()
})
