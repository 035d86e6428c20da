/** Forged and stolen tokens, against the embedded realm and against two nodes on one store. */
import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from 'node:crypto'
import fastify from 'fastify'
import t, { type Test } from 'tap'
import { bearer } from '../../../admin/auth/bearer.ts'
import { createAuth } from '../../../admin/auth/index.ts'
import { addUser } from '../../../admin/auth/users.ts'
import { openStore } from '../../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import '../../support/cheap-passwords.ts'

const log = { info() {}, warn() {}, error() {} }
const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const realm = '/auth/realms/main'

/** One node: its token endpoint, a guarded path, and its store. */
async function node(t: Test, url: string, ahead = 0) {
  const now = () => Date.now() + ahead
  const store = await openStore(url, { now, log })
  const deps = { store, baseUrl: () => 'http://127.0.0.1:8081', log, now }
  const auth = await createAuth({ embedded: { realm: 'main' } }, deps)
  const app = fastify({ http: { maxHeaderSize: 32 * 1024 } })
  await app.register(auth.plugin!)
  app.get('/who', { onRequest: bearer(auth.verifier) }, async ({ caller }) => ({
    account: caller?.account,
  }))
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => {
    await app.close()
    auth.close()
    await store.close()
  })
  const ask = async (fields: Record<string, string>) => {
    const body = new URLSearchParams({ client_id: 'public-client', ...fields })
    const answer = await fetch(`${base}${realm}/protocol/openid-connect/token`, {
      method: 'POST',
      body,
    })
    const text = (await answer.json()) as { access_token: string; refresh_token: string }
    return { status: answer.status, body: text }
  }
  const login = () => ask({ grant_type: 'password', username: 'ann', password: 'correct-1' })
  const refresh = (refresh_token: string) => ask({ grant_type: 'refresh_token', refresh_token })
  const who = (token: string) =>
    fetch(`${base}/who`, { headers: { authorization: `Bearer ${token}` } })
  return { store, base, login, refresh, who }
}

const ann = { name: 'ann', password: 'correct-1', roles: ['api'], account: 'acme' }

t.test('forged tokens at the embedded realm', async (t) => {
  const { store, base, login, who } = await node(t, `sqlite:${t.testdir()}/a.db`)
  await addUser(store, ann)
  const { access_token: good } = (await login()).body
  t.equal((await who(good)).status, 200)
  const [head = '', body = '', tail = ''] = good.split('.')
  const header = JSON.parse(Buffer.from(head, 'base64url').toString()) as { kid: string }
  const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>
  const certs = await fetch(`${base}${realm}/protocol/openid-connect/certs`)
  const { keys } = (await certs.json()) as { keys: Record<string, string>[] }
  t.notOk('d' in keys[0]!, 'what is shown of the key is public')
  const pem = createPublicKey({ key: keys[0]!, format: 'jwk' }).export({
    type: 'spki',
    format: 'pem',
  })
  const thief = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const signed = (over: object, more: object, key: KeyObject = thief.privateKey) => {
    const input = `${part({ ...header, ...over })}.${part({ ...claims, account: '*', ...more })}`
    const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' })
    return `${input}.${signature.toString('base64url')}`
  }
  const hmac = (secret: string | Buffer) => {
    const input = `${part({ ...header, alg: 'HS256' })}.${part(claims)}`
    return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
  }
  const jwk = thief.publicKey.export({ format: 'jwk' })
  const forged: Record<string, string> = {
    'alg none': `${part({ ...header, alg: 'none' })}.${body}.`,
    'alg None': `${part({ ...header, alg: 'None' })}.${body}.`,
    'alg none, with the signature': `${part({ ...header, alg: 'none' })}.${body}.${tail}`,
    'HMAC with the public key as PEM': hmac(pem),
    'HMAC with the public key as JSON': hmac(JSON.stringify(keys[0])),
    'HMAC with the x of the public key': hmac(Buffer.from(keys[0]!['x']!, 'base64url')),
    'another key under our id': signed({}, {}),
    'the key in the header': signed({ jwk }, {}),
    'a jku': signed({ jku: 'http://127.0.0.1:1/', kid: 'k' }, {}),
    'an x5u': signed({ x5u: 'http://127.0.0.1:1/', kid: 'k' }, {}),
    'an x5c': signed({ x5c: ['AAAA'] }, {}),
    'a kid that is a path': signed({ kid: '../../../dev/null' }, {}),
    'a kid that is SQL': signed({ kid: "' or 1=1 --" }, {}),
    'a kid of the prototype': signed({ kid: '__proto__' }, {}),
    'no kid': signed({ kid: undefined }, {}),
    crit: signed({ crit: ['exp'] }, {}),
    'an unencoded payload': signed({ crit: ['b64'], b64: false }, {}),
    'claims exchanged': `${head}.${part({ ...claims, account: '*' })}.${tail}`,
    'no signature': `${head}.${body}.`,
    'a signature of zeros': `${head}.${body}.${Buffer.alloc(64).toString('base64url')}`,
    'a signature cut': good.slice(0, -4),
    'one part': head,
    'five parts': `${good}.a.b`,
    'JSON serialisation': Buffer.from(JSON.stringify({ payload: body, signature: tail })).toString(
      'base64url',
    ),
    'a token of 11 KB': `${head}.${body}.${'A'.repeat(11_000)}`,
    'a token of 20 KB': `${head}.${body}.${'A'.repeat(20_000)}`,
  }
  // signed by the key of the realm, as a fault of this service or of another one with its key might do
  const { private_jwk } = await store.db
    .selectFrom('signing_keys')
    .select('private_jwk')
    .executeTakeFirstOrThrow()
  const realKey = createPrivateKey({ key: JSON.parse(private_jwk), format: 'jwk' })
  t.equal((await who(signed({}, {}, realKey))).status, 200, 'a token of the same form is valid')
  forged['an issuer that is a list'] = signed({}, { iss: [claims['iss']] }, realKey)
  forged['an issuer that is a list of two'] = signed({}, { iss: ['x', claims['iss']] }, realKey)
  forged['an issuer that is an object'] = signed({}, { iss: { url: claims['iss'] } }, realKey)
  for (const [name, token] of Object.entries(forged)) {
    const answer = await who(token)
    t.equal(answer.status, 401, name)
    t.match(answer.headers.get('www-authenticate'), /^Bearer .*error="invalid_token"/, name)
  }
  t.equal((await fetch(`${base}/who?access_token=${good}`)).status, 401, 'a token in the query')
  t.equal((await who(good)).status, 200)
})

t.test(
  'nodes whose clocks differ take each other’s tokens; another store’s are refused',
  async (t) => {
    const url = `sqlite:${t.testdir({})}/shared.db`
    const ahead = await node(t, url, 3000)
    await addUser(ahead.store, ann)
    const behind = await node(t, url)
    const { access_token } = (await ahead.login()).body
    t.equal((await behind.who(access_token)).status, 200)
    const other = await node(t, `sqlite:${t.testdir({})}/other.db`)
    t.equal((await other.who(access_token)).status, 401)
  },
)

t.test('a refresh token used at two nodes at once', { skip: postgresAbsent }, async (t) => {
  const postgres = await startPostgres()
  const nodes = [await node(t, postgres.url), await node(t, postgres.url)] as const
  t.teardown(() => postgres.close())
  await addUser(nodes[0].store, ann)
  for (let round = 0; round < 5; round++) {
    const { refresh_token } = (await nodes[round % 2]!.login()).body
    const race = await Promise.all(
      Array.from({ length: 8 }, (_, index) => nodes[index % 2]!.refresh(refresh_token)),
    )
    const winners = race.filter(({ status }) => status === 200)
    t.equal(winners.length, 1, 'one is given a token')
    t.equal((await nodes[0].refresh(winners[0]!.body.refresh_token)).status, 400, 'it is over')
  }
  const { refresh_token } = (await nodes[0].login()).body
  const next = (await nodes[1].refresh(refresh_token)).body.refresh_token
  const last = (await nodes[0].refresh(next)).body.refresh_token
  t.equal((await nodes[1].refresh(refresh_token)).status, 400, 'the oldest of them again')
  t.equal((await nodes[0].refresh(last)).status, 400, 'ends the newest')
})
