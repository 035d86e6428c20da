import fastify from 'fastify'
import { decodeJwt } from 'jose'
import t, { type Test } from 'tap'
import { bearer } from '../../admin/auth/bearer.ts'
import { createAuth } from '../../admin/auth/index.ts'
import { addUser, firstUser } from '../../admin/auth/users.ts'
import { openStore } from '../../admin/store/index.ts'

const log = { info() {}, warn() {}, error() {} }
const path = '/auth/realms/main/protocol/openid-connect/token'

async function service(t: Test, url = `sqlite:${t.testdir()}/a.db`) {
  const clock = { now: Date.now() }
  const now = () => clock.now
  const store = await openStore(url, { now, log })
  const auth = await createAuth(
    { embedded: { realm: 'main' } },
    { store, baseUrl: () => 'http://127.0.0.1:8081', log, now },
  )
  const app = fastify()
  await app.register(auth.plugin!)
  app.get('/who', { preHandler: bearer(auth.verifier) }, async (request) => ({
    ...request.caller,
    roles: [...(request.caller?.roles ?? [])],
  }))
  const base = await app.listen({ port: 0, host: '127.0.0.1' })
  t.teardown(async () => {
    await app.close()
    auth.close()
    await store.close()
  })
  const ask = async (fields: Record<string, string> | string, headers = {}) => {
    const body = typeof fields === 'string' ? fields : new URLSearchParams(fields).toString()
    const answer = await fetch(base + path, {
      method: 'POST',
      body,
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    })
    const { status } = answer
    return { status, headers: answer.headers, body: (await answer.json()) as Answer }
  }
  const who = (token: string | null) =>
    fetch(`${base}/who`, token === null ? {} : { headers: { authorization: `Bearer ${token}` } })
  const login = (username: string, password: string) =>
    ask({ client_id: 'public-client', grant_type: 'password', username, password })
  const refresh = (refresh_token: string) =>
    ask({ client_id: 'public-client', grant_type: 'refresh_token', refresh_token })
  return { store, ask, who, login, refresh, base, clock }
}

interface Answer {
  access_token: string
  refresh_token: string
  scope: string
  expires_in: number
  refresh_expires_in: number
  token_type: string
  error: string
}

t.test('a user logs in, calls, and refreshes', async (t) => {
  const { store, who, login, refresh } = await service(t)
  t.equal(
    await addUser(store, { name: 'ann', password: 'pw ü&=+', roles: ['api'], account: 'acme' }),
    true,
  )
  t.equal(await addUser(store, { name: 'ann', password: 'other' }), false, 'a name stands once')
  const first = await login('ann', 'pw ü&=+')
  t.equal(first.status, 200)
  t.equal(first.headers.get('cache-control'), 'no-store')
  t.match(first.body, {
    expires_in: 300,
    refresh_expires_in: Number,
    token_type: 'Bearer',
    scope: 'openid email profile',
  })
  t.match(decodeJwt(first.body.access_token), {
    iss: 'http://127.0.0.1:8081/auth/realms/main',
    aud: 'bidweir',
    typ: 'Bearer',
    jti: String,
    nbf: Number,
    iat: Number,
    sub: 'ann',
  })
  const answer = await who(first.body.access_token)
  t.strictSame(await answer.json(), { subject: 'ann', account: 'acme', roles: ['api'] })
  const second = await refresh(first.body.refresh_token)
  t.equal(second.status, 200)
  t.not(second.body.refresh_token, first.body.refresh_token)
  t.equal((await who(second.body.refresh_token)).status, 401, 'a refresh token opens nothing')
})

t.test('a refresh token used twice ends its family, also when the two race', async (t) => {
  const { store, login, refresh } = await service(t)
  await addUser(store, { name: 'ann', password: 'pw' })
  const { body } = await login('ann', 'pw')
  const race = await Promise.all([1, 2, 3].map(() => refresh(body.refresh_token)))
  const winners = race.filter(({ status }) => status === 200)
  t.equal(winners.length, 1, 'one wins')
  const after = await refresh(winners[0]!.body.refresh_token)
  t.match(after, { status: 400, body: { error: 'invalid_grant' } })
  t.equal((await login('ann', 'pw')).status, 200, 'a new log-in starts a new family')
})

t.test('tokens that have ended are cleared away by later log-ins', async (t) => {
  const { store, login, refresh, clock } = await service(t)
  await addUser(store, { name: 'ann', password: 'pw' })
  let { refresh_token } = (await login('ann', 'pw')).body
  for (let n = 0; n < 5; n++) refresh_token = (await refresh(refresh_token)).body.refresh_token
  clock.now += 31 * 24 * 3_600_000
  t.equal((await refresh(refresh_token)).status, 400)
  await login('ann', 'pw')
  t.equal((await store.db.selectFrom('refresh_tokens').select('hash').execute()).length, 1)
})

t.test('without token 401, without role 403, expired 401', async (t) => {
  const { store, login, who, clock } = await service(t)
  await addUser(store, { name: 'ann', password: 'pw', roles: ['api'] })
  await addUser(store, { name: 'bob', password: 'pw' })
  const none = await who(null)
  t.equal(none.status, 401)
  t.match(none.headers.get('www-authenticate'), /^Bearer realm=/)
  t.match(none.headers.get('content-type'), /application\/problem\+json/)
  t.equal((await who((await login('bob', 'pw')).body.access_token)).status, 403)
  const { access_token } = (await login('ann', 'pw')).body
  t.equal((await who(access_token)).status, 200)
  clock.now += 301_000
  t.equal((await who(access_token)).status, 401, 'expiry is looked at on each call')
})

t.test('requests that break the rules of the form', async (t) => {
  const { ask, store } = await service(t)
  await addUser(store, { name: 'ann', password: 'pw' })
  const good = 'client_id=public-client&grant_type=password&username=ann&password=pw'
  const cases: [string, string, number, string][] = [
    ['no client', 'grant_type=password&username=ann&password=pw', 400, 'invalid_request'],
    ['a foreign client', good.replace('public-client', 'x'), 401, 'invalid_client'],
    ['no grant', 'client_id=public-client', 400, 'invalid_request'],
    ['another grant', good.replace('=password', '=implicit'), 400, 'unsupported_grant_type'],
    ['a parameter twice', `${good}&username=ann`, 400, 'invalid_request'],
    ['no password', good.replace('&password=pw', ''), 400, 'invalid_request'],
    ['bad encoding', `${good}&x=%ff`, 400, 'invalid_request'],
    ['a NUL in the name', good.replace('ann', 'ann%00'), 400, 'invalid_grant'],
    ['a bad scope', `${good}&scope=%22`, 400, 'invalid_scope'],
    ['far too long', `${good}&x=${'x'.repeat(20_000)}`, 400, 'invalid_request'],
    ['constructor', good.replace('=password', '=constructor'), 400, 'unsupported_grant_type'],
  ]
  for (const [name, body, status, error] of cases)
    t.match(await ask(body), { status, body: { error } }, name)
  const json = await ask(good, { 'content-type': 'application/json' })
  t.match(json, { status: 400, body: { error: 'invalid_request' } })
})

t.test('failed log-ins are slowed, other users are not', async (t) => {
  const { store, login, clock } = await service(t)
  await addUser(store, { name: 'ann', password: 'pw' })
  await addUser(store, { name: 'bob', password: 'pw' })
  const tries = await Promise.all(Array.from({ length: 12 }, () => login('ann', 'wrong')))
  const slowed = tries.filter(({ status }) => status === 429)
  t.equal(slowed.length, 7)
  t.ok(Number(slowed[0]!.headers.get('retry-after')) > 0)
  t.equal((await login('ann', 'pw')).status, 429, 'the right password waits too')
  t.equal((await login('bob', 'pw')).status, 200)
  clock.now += 61_000
  t.equal((await login('ann', 'pw')).status, 200)
})

t.test(
  'two nodes of one store: tokens of one are good at the other, and after a restart',
  async (t) => {
    const url = `sqlite:${t.testdir()}/shared.db`
    const one = await service(t, url)
    const admin = await firstUser(one.store)
    t.match(admin, { name: 'admin', password: /^.{20}$/ })
    t.equal(await firstUser(one.store), null, 'only where there is no user')
    const { body } = await one.login('admin', admin!.password)
    const two = await service(t, url)
    t.match(await (await two.who(body.access_token)).json(), { account: '*' })
    t.equal((await two.refresh(body.refresh_token)).status, 200)
    t.equal((await one.refresh(body.refresh_token)).status, 400)
  },
)
