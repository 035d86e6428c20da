/** ID tokens, scopes and discovery of the embedded realm, however its listener is reached (CONTRACT 2, 9). */
import { request } from 'node:http'
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose'
import t from 'tap'
import { addUser } from '../../../admin/auth/users.ts'
import { embeddedRealm, realmPath } from '../../support/realm.ts'

const ann = { name: 'ann', password: 'correct-1', roles: ['api'], account: 'acme' }
const discovery = `${realmPath}/.well-known/openid-configuration`

interface Discovery {
  issuer: string
  jwks_uri: string
  token_endpoint: string
  revocation_endpoint: string
  end_session_endpoint: string
}

t.test('openid brings an ID token that a client of the discovery document verifies', async (t) => {
  const { store, base, login, refresh, who, clock } = await embeddedRealm(t)
  await addUser(store, ann)
  const document = (await (await fetch(base + discovery)).json()) as Discovery
  t.match(document, {
    issuer: base + realmPath,
    revocation_endpoint: `${base}${realmPath}/protocol/openid-connect/revoke`,
    end_session_endpoint: `${base}${realmPath}/protocol/openid-connect/logout`,
  })
  const first = (await login('ann', 'correct-1', { scope: 'openid' })).body
  t.equal(first.scope, 'openid')
  const keys = createRemoteJWKSet(new URL(document.jwks_uri))
  const options = { issuer: document.issuer, audience: 'public-client' }
  const { payload } = await jwtVerify(first.id_token!, keys, options)
  const seconds = Math.floor(clock.now / 1000)
  t.match(payload, { sub: 'ann', preferred_username: 'ann', iat: seconds, auth_time: seconds })
  t.ok(payload.exp! > seconds)
  t.notOk('email' in payload, 'no address is known')
  t.equal((await who(first.id_token!)).status, 401, 'it opens nothing')
  clock.now += 60_000
  const second = (await refresh(first.refresh_token)).body
  const { auth_time, iat } = decodeJwt(second.id_token!)
  t.same([auth_time, iat], [seconds, seconds + 60], 'a refresh is no log-in')
})

t.test('the granted scope is the known part of the requested one', async (t) => {
  const { store, login, ask } = await embeddedRealm(t)
  await addUser(store, ann)
  const all = 'openid email profile'
  const cases: [asked: string | null, granted: string][] = [
    ['profile', 'profile'],
    ['foo profile openid bar', 'openid profile'],
    ['email profile', 'email profile'],
    ['foo', all],
    [null, all],
  ]
  for (const [scope, granted] of cases) {
    const { body } = await login('ann', 'correct-1', scope === null ? {} : { scope })
    t.equal(body.scope, granted, scope ?? 'none')
    t.equal('id_token' in body, granted.includes('openid'), scope ?? 'none')
    t.equal(decodeJwt(body.access_token)['scope'], granted)
  }
  const { refresh_token } = (await login('ann', 'correct-1', { scope: 'openid email' })).body
  const again = { client_id: 'public-client', grant_type: 'refresh_token', refresh_token }
  t.equal((await ask({ ...again, scope: '"' })).body.error, 'invalid_scope')
  const less = await ask({ ...again, scope: 'email profile' })
  t.equal(less.body.scope, 'email', 'the refused request has not used the token up')
})

t.test(
  'the document and tokens name the listener; only a trusted proxy says otherwise',
  async (t) => {
    const trusted: { list: readonly string[] } = { list: [] }
    const reached: { origin: string | null } = { origin: null }
    const realm = await embeddedRealm(t, undefined, {
      publicUrl: () => reached.origin,
      trustedProxies: () => trusted.list,
    })
    const { store, base, ask, who } = realm
    await addUser(store, ann)
    /** By node:http: fetch sets Host itself. */
    const issuerAt = (headers: Record<string, string>) =>
      new Promise<string>((resolve, reject) => {
        request(base + discovery, { headers }, async (response) => {
          const [body] = await response.toArray()
          resolve((JSON.parse(String(body)) as Discovery).issuer)
        })
          .on('error', reject)
          .end()
      })
    const proxied = {
      'x-forwarded-host': 'a.example, b.example:8443',
      'x-forwarded-proto': 'https',
    }
    const { port } = new URL(base)
    for (const name of [`127.0.0.1:${port}`, `localhost:${port}`])
      t.equal(await issuerAt({ host: name }), `http://${name}${realmPath}`, 'the connection itself')
    const issuer = `http://127.0.0.1:8081${realmPath}`
    for (const host of [
      'bids.example',
      'localhost:1',
      `evil.example:${port}`,
      'x/y?"',
      'x:99999',
      'a@b',
      '[::1',
    ])
      t.equal(await issuerAt({ host }), issuer, `a Host that the caller has chosen: ${host}`)
    const spoofed = { host: 'bids.example', ...proxied }
    t.equal(await issuerAt(spoofed), issuer, 'no proxy is trusted')
    trusted.list = ['127.0.0.1']
    t.equal(await issuerAt({ host: 'bids.example' }), `http://bids.example${realmPath}`)
    t.equal(await issuerAt(spoofed), `https://b.example:8443${realmPath}`)
    reached.origin = 'https://ads.example/bidweir/'
    t.equal(await issuerAt(spoofed), `https://ads.example/bidweir${realmPath}`)
    const { username, password } = { username: 'ann', password: 'correct-1' }
    const form = { client_id: 'public-client', grant_type: 'password', username, password }
    const { access_token, id_token } = (await ask(form, proxied)).body
    for (const token of [access_token, id_token!])
      t.equal(decodeJwt(token).iss, `https://ads.example/bidweir${realmPath}`)
    t.equal((await who(access_token)).status, 200, 'a prefix is no other realm')
    reached.origin = null
    t.equal((await who((await ask(form, proxied)).body.access_token)).status, 200)
  },
)
