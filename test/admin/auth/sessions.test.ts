/** Sessions of the embedded realm: how they end, and that nothing of them remains (CONTRACT 1, 9). */
import type { Test } from 'tap'
import { refreshTokens } from '../../../admin/auth/embedded/refresh-tokens.ts'
import { addUser, changeUser, findUser, type UserVerb } from '../../../admin/auth/users.ts'
import { embeddedRealm, protocolPath } from '../../support/realm.ts'
import { onBoth } from '../../support/store.ts'

const ann = { name: 'ann', password: 'correct-1', roles: ['api'], account: 'acme' }
const client_id = 'public-client'

async function loggedIn(t: Test, url: string) {
  const realm = await embeddedRealm(t, url)
  await addUser(realm.store, ann)
  const begin = async () => (await realm.login('ann', 'correct-1')).body
  const alive = async (token: string) => (await realm.refresh(token)).status === 200
  return { ...realm, begin, alive }
}

onBoth(async (t, { url }) => {
  const { store, post, login, refresh, begin, alive, base, clock } = await loggedIn(t, url)
  const change = (verb: UserVerb, password?: string) =>
    changeUser(store, 'ann', verb, password === undefined ? {} : { password })

  await t.test('a disabled user has no session, and looks like a wrong password', async (t) => {
    const { refresh_token } = await begin()
    t.equal(await change('disable'), 'changed')
    t.match(await refresh(refresh_token), { status: 400, body: { error: 'invalid_grant' } })
    const right = await login('ann', 'correct-1')
    const wrong = await login('ann', 'wrong-pass-1')
    t.equal(right.status, 400)
    t.same(right.body, wrong.body)
    t.equal(await change('enable'), 'changed')
    t.notOk(await alive(refresh_token), 'what has ended stays so')
    t.equal((await login('ann', 'correct-1')).status, 200)
  })

  await t.test('a new password ends the sessions of the old one', async (t) => {
    const { refresh_token } = await begin()
    await t.rejects(change('passwd', 'short-1'), /8 to 1024 characters/)
    t.ok(await alive((await begin()).refresh_token), 'a refused password changes nothing')
    t.equal(await change('passwd', 'correct-2'), 'changed')
    t.notOk(await alive(refresh_token))
    t.equal((await login('ann', 'correct-1')).status, 400)
    t.equal((await login('ann', 'correct-2')).status, 200)
    await change('passwd', 'correct-1')
  })

  await t.test('no session outlives its end, or a change of its user, that races', async (t) => {
    const left = async () =>
      (await store.db.selectFrom('refresh_tokens').selectAll().execute()).length
    for (const [now, next] of [
      ['correct-1', 'correct-2'],
      ['correct-2', 'correct-1'],
    ] as const) {
      await Promise.all([login('ann', now), change('passwd', next)])
      t.equal(await left(), 0, 'a log-in with the old password')
    }
    const tokens = refreshTokens(store, () => clock.now)
    const user = (await findUser(store.db, 'ann'))!
    for (let round = 0; round < 10; round++) {
      const one = (await tokens.start(user, 'openid'))!
      await Promise.all([tokens.rotate(one.token), change('disable')])
      t.equal(await left(), 0, 'a refresh beside a change')
      await change('enable')
      const two = (await tokens.start(user, 'openid'))!
      await Promise.all([tokens.rotate(two.token), tokens.end(two.id)])
      t.equal(await left(), 0, 'a refresh beside the end')
    }
  })

  await t.test('revoke ends the session by any of its tokens (RFC 7009)', async (t) => {
    const revoke = (fields: Record<string, string>) => post('revoke', fields)
    const first = (await begin()).refresh_token
    const second = (await refresh(first)).body.refresh_token
    const other = (await begin()).refresh_token
    const hint = { token_type_hint: 'refresh_token' }
    t.equal((await revoke({ client_id, token: first, ...hint })).status, 200, 'a used one')
    t.notOk(await alive(second))
    t.ok(await alive(other), 'another session goes on')
    t.equal((await revoke({ client_id, token: 'of nobody' })).status, 200)
    t.match(await revoke({ client_id }), { status: 400 })
    t.match(await revoke({ client_id: 'x', token: other }), { status: 401 })
    const get = await fetch(`${base}${protocolPath}/revoke`)
    t.match([get.status, get.headers.get('allow')], [405, 'POST'])
  })

  await t.test('log-out ends the session by refresh token or ID token', async (t) => {
    const logOut = (fields: Record<string, string>) => post('logout', fields)
    const one = await begin()
    t.equal((await logOut({ client_id, refresh_token: one.refresh_token })).status, 204)
    t.notOk(await alive(one.refresh_token))
    t.equal((await logOut({ client_id, refresh_token: one.refresh_token })).status, 204, 'again')
    t.equal((await logOut({ client_id: 'x', refresh_token: 'r' })).status, 401)

    const two = await begin()
    const hinted = (hint: string) =>
      fetch(`${base}${protocolPath}/logout?${new URLSearchParams({ id_token_hint: hint })}`)
    const [head, body] = two.id_token!.split('.')
    for (const hint of ['x', two.access_token, `${head}.${body}.${'A'.repeat(86)}`])
      t.equal((await hinted(hint)).status, 204)
    const { refresh_token } = (await refresh(two.refresh_token)).body
    t.type(refresh_token, 'string', 'what is no ID token of ours ends nothing')
    clock.now += 3_600_000
    t.equal(
      (await hinted(two.id_token!)).status,
      204,
      'it has expired, and still names its session',
    )
    t.notOk(await alive(refresh_token))

    const three = await begin()
    t.equal((await logOut({ id_token_hint: three.id_token! })).status, 204)
    t.notOk(await alive(three.refresh_token))
    const neither = await fetch(`${base}${protocolPath}/logout`)
    t.match([neither.status, await neither.json()], [400, { error: 'invalid_request' }])
    t.equal((await logOut({ client_id })).status, 400)
  })

  await t.test('a user who is removed is gone; another of the name begins anew', async (t) => {
    const { refresh_token } = await begin()
    t.equal(await change('remove'), 'changed')
    t.notOk(await alive(refresh_token))
    t.equal((await login('ann', 'correct-1')).status, 400)
    t.equal(await change('remove'), 'unknown')
    await addUser(store, ann)
    t.notOk(await alive(refresh_token))
  })

  await t.test('each change of a user is in the audit trail, without the password', async (t) => {
    const rows = await store.db.selectFrom('audit').selectAll().orderBy('id').execute()
    const rowsOf = (action: string) => rows.filter((row) => row.action === action)
    for (const verb of ['add', 'passwd', 'disable', 'enable', 'remove'])
      t.ok(rowsOf(`user_${verb}`).length > 0, verb)
    const [disabled] = rowsOf('user_disable')
    t.match(disabled, { who: 'command line', account: '*', supplier: '' })
    t.match(JSON.parse(disabled!.before!), { name: 'ann', roles: ['api'], state: 'enabled' })
    t.match(JSON.parse(disabled!.after!), { name: 'ann', state: 'disabled' })
    t.notMatch(JSON.stringify(rows), /scrypt|correct-/)
  })
})

onBoth(async (t, { url }) => {
  const { store } = await embeddedRealm(t, url)
  const password = 'correct-1'
  await t.test('the last admin is closed by force alone', async (t) => {
    await addUser(store, { name: 'one', password, roles: ['operator'], account: '*' })
    await addUser(store, { name: 'two', password, roles: ['operator'], account: '*' })
    await addUser(store, { name: 'ann', password, roles: ['operator'], account: 'acme' })
    await addUser(store, { name: 'eve', password, roles: ['api'], account: '*' })
    const race = await Promise.all(['one', 'two'].map((name) => changeUser(store, name, 'disable')))
    t.same(race.sort(), ['changed', 'last_admin'], 'two commands at once leave one')
    await changeUser(store, 'one', 'enable')
    await changeUser(store, 'two', 'remove')
    t.equal(await changeUser(store, 'one', 'disable'), 'last_admin')
    t.equal(await changeUser(store, 'one', 'remove'), 'last_admin')
    t.equal(await changeUser(store, 'one', 'passwd', { password }), 'changed')
    t.equal(await changeUser(store, 'one', 'disable', { force: true }), 'changed')
    t.equal(await changeUser(store, 'one', 'remove'), 'changed', 'it may do nothing any more')
  })
})
