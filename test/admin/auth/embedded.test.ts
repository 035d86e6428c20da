import { decodeJwt } from 'jose'
import t from 'tap'
import { addUser, firstUser } from '../../../admin/auth/users.ts'
import { embeddedRealm } from '../../support/realm.ts'

t.test('a user logs in, calls, and refreshes', async (t) => {
  const { store, who, login, refresh, base } = await embeddedRealm(t)
  t.equal(
    await addUser(store, { name: 'ann', password: 'pass ü&=+', roles: ['api'], account: 'acme' }),
    true,
  )
  t.equal(
    await addUser(store, { name: 'ann', password: 'another-1' }),
    false,
    'a second account of one name is refused',
  )
  const first = await login('ann', 'pass ü&=+')
  t.equal(first.status, 200)
  t.equal(first.headers.get('cache-control'), 'no-store')
  t.match(first.body, {
    expires_in: 300,
    refresh_expires_in: Number,
    token_type: 'Bearer',
    scope: 'openid email profile',
  })
  t.match(decodeJwt(first.body.access_token), {
    iss: `${base}/auth/realms/main`,
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
  const { store, login, refresh } = await embeddedRealm(t)
  await addUser(store, { name: 'ann', password: 'correct-1' })
  const { body } = await login('ann', 'correct-1')
  const race = await Promise.all([1, 2, 3].map(() => refresh(body.refresh_token)))
  const winners = race.filter(({ status }) => status === 200)
  t.equal(winners.length, 1, 'one wins')
  const after = await refresh(winners[0]!.body.refresh_token)
  t.match(after, { status: 400, body: { error: 'invalid_grant' } })
  t.equal((await login('ann', 'correct-1')).status, 200, 'a new log-in starts a new family')
})

t.test('tokens that have ended are cleared away by later log-ins', async (t) => {
  const { store, login, refresh, clock } = await embeddedRealm(t)
  await addUser(store, { name: 'ann', password: 'correct-1' })
  let { refresh_token } = (await login('ann', 'correct-1')).body
  for (let n = 0; n < 5; n++) refresh_token = (await refresh(refresh_token)).body.refresh_token
  clock.now += 31 * 24 * 3_600_000
  t.equal((await refresh(refresh_token)).status, 400)
  await login('ann', 'correct-1')
  t.equal((await store.db.selectFrom('refresh_tokens').select('hash').execute()).length, 1)
})

t.test('without token 401, without role 403, expired 401', async (t) => {
  const { store, login, who, clock } = await embeddedRealm(t)
  await addUser(store, { name: 'ann', password: 'correct-1', roles: ['api'] })
  await addUser(store, { name: 'bob', password: 'correct-1' })
  const none = await who(null)
  t.equal(none.status, 401)
  t.match(none.headers.get('www-authenticate'), /^Bearer realm=/)
  t.match(none.headers.get('content-type'), /application\/problem\+json/)
  t.equal((await who((await login('bob', 'correct-1')).body.access_token)).status, 403)
  const { access_token } = (await login('ann', 'correct-1')).body
  t.equal((await who(access_token)).status, 200)
  clock.now += 301_000
  t.equal((await who(access_token)).status, 401, 'expiry is looked at on each call')
})

t.test('requests that break the rules of the form', async (t) => {
  const { ask, store } = await embeddedRealm(t)
  await addUser(store, { name: 'ann', password: 'correct-1' })
  const good = 'client_id=public-client&grant_type=password&username=ann&password=correct-1'
  const cases: [string, string, number, string][] = [
    ['no client', 'grant_type=password&username=ann&password=correct-1', 400, 'invalid_request'],
    ['a foreign client', good.replace('public-client', 'x'), 401, 'invalid_client'],
    ['no grant', 'client_id=public-client', 400, 'invalid_request'],
    ['another grant', good.replace('=password', '=implicit'), 400, 'unsupported_grant_type'],
    ['a parameter twice', `${good}&username=ann`, 400, 'invalid_request'],
    ['no password', good.replace('&password=correct-1', ''), 400, 'invalid_request'],
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
  const { store, login, clock } = await embeddedRealm(t)
  await addUser(store, { name: 'ann', password: 'correct-1' })
  await addUser(store, { name: 'bob', password: 'correct-1' })
  const tries = await Promise.all(Array.from({ length: 12 }, () => login('ann', 'wrong')))
  const slowed = tries.filter(({ status }) => status === 429)
  t.equal(slowed.length, 7)
  t.ok(Number(slowed[0]!.headers.get('retry-after')) > 0)
  t.equal((await login('ann', 'correct-1')).status, 429, 'the right password waits too')
  t.equal((await login('bob', 'correct-1')).status, 200)
  clock.now += 61_000
  t.equal((await login('ann', 'correct-1')).status, 200)
})

t.test(
  'two nodes of one store: tokens of one are good at the other, and after a restart',
  async (t) => {
    const url = `sqlite:${t.testdir()}/shared.db`
    const one = await embeddedRealm(t, url)
    const admin = await firstUser(one.store)
    t.match(admin, { name: 'admin', password: /^.{20}$/ })
    t.equal(await firstUser(one.store), null, 'only where there is no user')
    const { body } = await one.login('admin', admin!.password!)
    const two = await embeddedRealm(t, url)
    t.match(await (await two.who(body.access_token)).json(), { account: '*' })
    t.equal((await two.refresh(body.refresh_token)).status, 200)
    t.equal((await one.refresh(body.refresh_token)).status, 400)
  },
)
