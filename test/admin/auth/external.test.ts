import { createHmac } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, exportSPKI, generateKeyPair, type JWK, SignJWT } from 'jose'
import t, { type Test } from 'tap'
import { createAuth } from '../../../admin/auth/index.ts'
import { may, roles } from '../../../admin/http/roles.ts'
import type { Store } from '../../../admin/store/index.ts'
import { until } from '../../support/until.ts'

const log = { info() {}, warn() {}, error() {} }
const pair = await generateKeyPair('RS256', { extractable: true })
const other = await generateKeyPair('RS256', { extractable: true })
const jwkOf = async (key: typeof pair.publicKey, kid: string): Promise<JWK> => ({
  ...(await exportJWK(key)),
  kid,
  alg: 'RS256',
  use: 'sig',
})

/** An issuer over real sockets; `keys` and `up` change while it runs. */
async function issuer(t: Test) {
  const state = {
    keys: [await jwkOf(pair.publicKey, 'k1')] as JWK[],
    up: true,
    fetches: 0,
    /** Answers that are never finished. */
    slow: null as ServerResponse[] | null,
  }
  const server = createServer((request, response) => {
    if (!state.up) return void response.writeHead(503).end()
    if (state.slow !== null) {
      response.writeHead(200).write('{')
      return void state.slow.push(response)
    }
    if (request.url?.endsWith('/certs')) {
      state.fetches++
      return void response.end(JSON.stringify({ keys: state.keys }))
    }
    response.end(JSON.stringify({ issuer: url, jwks_uri: `${url}/certs` }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/auth/realms/x`
  t.teardown(() => server.close())
  const clock = { now: Date.now() }
  const open = async (role = 'api') => {
    const accountClaim = 'account'
    const config = { issuer: url, audience: 'bidweir', role, clientId: 'console', accountClaim }
    const store = {} as Pick<Store, 'db' | 'postgres'>
    const auth = await createAuth(config, { store, baseUrl: () => '', log, now: () => clock.now })
    t.teardown(() => auth.close())
    const verify = async (token: string) => auth.verifier.verify(token)
    // The first call waits for the first attempt to fetch the keys.
    await verify(await sign({ jti: 'first' })).catch(() => {})
    return { verify }
  }
  const claims = () => {
    const seconds = Math.floor(clock.now / 1000)
    return {
      iss: url,
      aud: ['account', 'bidweir'],
      sub: 'u-1',
      iat: seconds,
      exp: seconds + 300,
      typ: 'Bearer',
      account: 'acme',
      realm_access: { roles: ['api'] },
    } as Record<string, unknown>
  }
  const sign = (over: Record<string, unknown> = {}, head = {}, key = pair.privateKey) =>
    new SignJWT({ ...claims(), ...over })
      .setProtectedHeader({ alg: 'RS256', kid: 'k1', typ: 'JWT', ...head })
      .sign(key)
  return { state, clock, open, claims, sign, url }
}

const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

t.test('a good token says who calls', async (t) => {
  const { open, sign } = await issuer(t)
  const { verify } = await open()
  const caller = await verify(await sign())
  t.strictSame(caller, { subject: 'u-1', account: 'acme', roles: new Set(['api']) })
  t.match(await verify(await sign({ aud: 'account', azp: 'bidweir' })), { account: 'acme' })
  const client = { realm_access: {}, resource_access: { bidweir: { roles: ['api'] } } }
  t.ok((await verify(await sign(client))).roles.has('api'))
  const foreign = { realm_access: {}, resource_access: { other: { roles: ['api'] } } }
  t.notOk((await verify(await sign(foreign))).roles.has('api'), 'a role of another client')
})

t.test('roles of the issuer are ours by name, `api` by the name that is configured', async (t) => {
  const { open, sign } = await issuer(t)
  const byDefault = await open()
  const renamed = await open('bidweir-editor')
  const holds = async ({ verify }: typeof renamed, ...names: string[]) => {
    const { roles: held } = await verify(await sign({ realm_access: { roles: names } }))
    return roles.filter((role) => may(held, role))
  }
  t.same(await holds(byDefault, 'viewer'), ['viewer'])
  t.same(await holds(byDefault, 'api'), ['viewer', 'api'])
  t.same(await holds(byDefault, 'operator'), [...roles])
  t.same(await holds(byDefault, 'offline_access', 'Viewer'), [])
  t.same(await holds(renamed, 'bidweir-editor'), ['viewer', 'api'])
  t.same(await holds(renamed, 'api'), [], 'another role of that name')
  t.same(await holds(renamed, 'operator'), [...roles])
})

t.test('forged, foreign and spoiled tokens', async (t) => {
  const { open, sign, claims, clock } = await issuer(t)
  const { verify } = await open()
  const seconds = Math.floor(clock.now / 1000)
  const none = `${part({ alg: 'none', kid: 'k1' })}.${part(claims())}.`
  const pem = await exportSPKI(pair.publicKey)
  const hsInput = `${part({ alg: 'HS256', kid: 'k1' })}.${part(claims())}`
  const hs = `${hsInput}.${createHmac('sha256', pem).update(hsInput).digest('base64url')}`
  const thief = await jwkOf(other.publicKey, 'k1')
  const good = await sign()
  const [head = '', , tail = ''] = good.split('.')
  const cases: Record<string, [string, string]> = {
    'alg none': [none, 'algorithm'],
    'HMAC with the public key': [hs, 'algorithm'],
    'jwk in the header': [await sign({}, { jwk: thief }, other.privateKey), 'signature'],
    'jku in the header': [await sign({}, { jku: 'http://x/' }, other.privateKey), 'signature'],
    'x5u in the header': [await sign({}, { x5u: 'http://x/' }, other.privateKey), 'signature'],
    'kid with a path': [await sign({}, { kid: '../../dev/null' }), 'unknown_key'],
    'kid of an object': [await sign({}, { kid: '__proto__' }), 'unknown_key'],
    'kid of 10 KB': [await sign({}, { kid: 'k'.repeat(10_000) }), 'unknown_key'],
    'another algorithm of the key': [await sign({}, { alg: 'PS256' }).catch(() => ''), 'malformed'],
    crit: [
      `${part({ alg: 'RS256', kid: 'k1', crit: ['x'], x: 1 })}.${part(claims())}.${tail}`,
      'malformed',
    ],
    'claims exchanged': [`${head}.${part({ ...claims(), account: '*' })}.${tail}`, 'signature'],
    expired: [await sign({ exp: seconds - 10 }), 'expired'],
    'no expiry': [await sign({ exp: undefined }), 'claims'],
    'from the future': [await sign({ nbf: seconds + 60 }), 'not_yet'],
    'made in the future': [await sign({ iat: seconds + 120 }), 'not_yet'],
    'an x5c in the header': [await sign({}, { x5c: ['AAAA'] }, other.privateKey), 'signature'],
    'no subject': [await sign({ sub: undefined }), 'claims'],
    'expiry as a text': [await sign({ exp: '9999999999' as unknown as number }), 'expired'],
    'an unencoded payload': [
      `${part({ alg: 'RS256', kid: 'k1', crit: ['b64'], b64: false })}.${part(claims())}.${'A'.repeat(342)}`,
      'signature',
    ],
    'five parts': [`${part({ alg: 'RSA-OAEP', enc: 'A128GCM', kid: 'k1' })}.a.b.c.d`, 'malformed'],
    'another issuer': [await sign({ iss: 'https://x.example' }), 'issuer'],
    'a list of issuers': [await sign({ iss: [claims()['iss']] }), 'issuer'],
    'another audience': [await sign({ aud: 'other', azp: 'other' }), 'audience'],
    'an ID token': [await sign({ typ: 'ID' }), 'type'],
    'a refresh token': [await sign({ typ: 'Refresh' }), 'type'],
    'an ID token by its hash': [await sign({ typ: undefined, at_hash: 'x' }), 'type'],
    'a logout token': [await sign({}, { typ: 'logout+jwt' }), 'type'],
    'NUL in the subject': [await sign({ sub: 'a\u0000b' }), 'claims'],
    'a subject of 10 KB': [await sign({ sub: 'a'.repeat(10_000) }), 'claims'],
    'NUL in the account': [await sign({ account: '*\u0000' }), 'claims'],
    'an account that is an object': [await sign({ account: { a: 1 } }), 'claims'],
    'not UTF-8': [`${Buffer.from([0xff, 0xfe]).toString('base64url')}.e30.AA`, 'malformed'],
    'no token at all': ['a.b', 'malformed'],
  }
  for (const [name, [token, code]] of Object.entries(cases))
    await t.rejects(verify(token), { name: 'TokenError', code }, name)
})

t.test('keys rotate, unknown ones cost one fetch, an outage none', async (t) => {
  const { open, sign, state, clock } = await issuer(t)
  const { verify } = await open()
  t.equal(state.fetches, 1)
  const next = () => sign({}, { kid: 'k2' }, other.privateKey)
  clock.now += 6000
  await Promise.all(
    Array.from({ length: 50 }, async (_, i) =>
      t.rejects(verify(await sign({}, { kid: `x${i}` })), { code: 'unknown_key' }),
    ),
  )
  t.equal(state.fetches, 2, 'fifty unknown keys, one fetch')
  state.keys = [await jwkOf(pair.publicKey, 'k1'), await jwkOf(other.publicKey, 'k2')]
  clock.now += 6000
  t.match(await verify(await next()), { account: 'acme' })
  state.up = false
  clock.now += 6000
  await t.rejects(verify(await sign({}, { kid: 'k3' })), { code: 'unknown_key' })
  t.match(await verify(await sign({ jti: 'fresh' })), { account: 'acme' }, 'the last keys are kept')
})

t.test('the service starts without its issuer', async (t) => {
  const { open, sign, state, clock } = await issuer(t)
  state.up = false
  const { verify } = await open()
  await t.rejects(verify(await sign()), { code: 'unavailable' })
  state.up = true
  clock.now += 6000
  t.match(await verify(await sign()), { account: 'acme' })
})

t.test('a token seen before ends at its expiry all the same', async (t) => {
  const { open, sign, clock } = await issuer(t)
  const { verify } = await open()
  const token = await sign()
  await verify(token)
  clock.now += 306_000
  await t.rejects(verify(token), { code: 'expired' })
})

t.test('a key set that does not arrive does not delay tokens whose key is known', async (t) => {
  const { open, sign, state, clock } = await issuer(t)
  const { verify } = await open()
  state.slow = []
  clock.now += 6000
  const unknown = Array.from({ length: 200 }, async (_, n) =>
    t.rejects(verify(await sign({}, { kid: `x${n}` })), { code: 'unknown_key' }),
  )
  await until(() => state.slow!.length > 0)
  t.match(await verify(await sign({ jti: 'one' })), { account: 'acme' }, 'while it drips')
  t.equal(state.slow.length, 1, 'two hundred unknown keys, one question')
  for (const response of state.slow) response.destroy()
  await Promise.all(unknown)
  t.match(await verify(await sign({ jti: 'two' })), { account: 'acme' })
})

t.test('key sets that are not what they should be leave the last keys', async (t) => {
  const { open, sign, state, clock } = await issuer(t)
  const { verify } = await open()
  const secret = { kty: 'oct', kid: 'k1', k: 'AAAA', alg: 'HS256', use: 'sig' }
  const forEncryption = { ...(await jwkOf(other.publicKey, 'k9')), use: 'enc' }
  for (const keys of [[], [secret], [forEncryption], [null], 'none', [{ kid: 'k1' }]]) {
    state.keys = keys as JWK[]
    clock.now += 6000
    await t.rejects(verify(await sign({}, { kid: 'k9' }, other.privateKey)), {
      code: 'unknown_key',
    })
    t.match(await verify(await sign({ jti: String(clock.now) })), { account: 'acme' })
  }
})
