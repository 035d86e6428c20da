/** Calls that the console needs: who may use them, and what they show. */
import t from 'tap'
import { command, newFolder, token } from '../../support/process.ts'
import { echoSupplier, startNode } from '../../support/service-node.ts'

t.test('calls of the console', async (t) => {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const node = await startNode({
    folder,
    endpoint: `${supplier.url}?token=hidden-1`,
    suppliers: [
      'id: acme, account: a, opd: {enabled: true, minFactor: .6}',
      'id: twin, account: b, opd: {enabled: true}',
      'id: plain, account: a, callers: {headers: {x-key: hidden-2}}',
    ],
    more: `store: {database: "sqlite:${folder}/b.db"}
opd: {keys: [{id: 1, secret: ${Buffer.alloc(32, 7).toString('base64url')}}]}`,
  })
  t.teardown(async () => {
    await node.bidweir.stop()
    await supplier.close()
  })
  const config = `${folder}/bidweir.yaml`
  const tokens: Record<string, string> = { admin: await node.login() }
  for (const [name, role, account] of [
    ['eve', 'viewer', 'a'],
    ['op', 'operator', 'a'],
  ] as const) {
    const argv = ['user', 'add', name, '--config', config, '--role', role, '--account', account]
    t.equal((await command(argv, { stdin: 'secret-1' })).code, 0)
    tokens[name] = await token(node.bidweir, name, 'secret-1')
  }
  const call = async (who: string, path: string, method = 'GET', body?: object) => {
    const headers = {
      authorization: `Bearer ${tokens[who]}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const response = await fetch(`${node.admin}/api/svc/${path}`, { method, headers, ...sent })
    return {
      status: response.status,
      headers: response.headers,
      // biome-ignore lint/suspicious/noExplicitAny: what any call answers
      body: (await response.json()) as any,
    }
  }

  t.test('users: operators of account * see, disable and enable them', async (t) => {
    for (const who of ['eve', 'op']) {
      t.equal((await call(who, 'users/')).status, 403, who)
      t.equal((await call(who, 'users/eve/disable/', 'POST')).status, 403, who)
    }
    const { body } = await call('admin', 'users/')
    t.match(body, [{ name: 'admin' }, { name: 'eve', roles: ['viewer'] }, { name: 'op' }])
    t.notMatch(JSON.stringify(body), /hash|scrypt/)
    t.match((await call('admin', 'users/eve/disable/', 'POST')).body, { state: 'disabled' })
    t.equal(await token(node.bidweir, 'eve', 'secret-1'), undefined, 'cannot log in')
    t.match((await call('admin', 'users/eve/enable/', 'POST')).body, { state: 'enabled' })
    t.equal((await call('admin', 'users/admin/disable/', 'POST')).status, 409, 'the last admin')
    t.equal((await call('admin', 'users/nobody/disable/', 'POST')).status, 404)
    const [last] = (await call('admin', 'audit/?limit=1')).body
    t.match(last, { who: 'admin', account: '*', action: 'user_enable' })
  })

  t.test('users: added, given a password, removed, each audited', async (t) => {
    const body = { name: 'new', password: 'secret-2', roles: ['viewer'], account: 'a' }
    for (const who of ['eve', 'op']) {
      t.equal((await call(who, 'users/', 'POST', body)).status, 403, who)
      const password = { password: 'secret-3' }
      t.equal((await call(who, 'users/admin/passwd/', 'POST', password)).status, 403, who)
      t.equal((await call(who, 'users/eve/remove/', 'POST')).status, 403, who)
    }
    const wrong = [
      [{ ...body, name: 'a b' }, '/name'],
      [{ ...body, password: 'short' }, '/password'],
      [{ ...body, roles: ['root'] }, '/roles/0'],
      [{ ...body, admin: true }, '/admin'],
    ] as const
    for (const [sent, pointer] of wrong) {
      const refused = await call('admin', 'users/', 'POST', sent)
      t.equal(refused.status, 400)
      t.match(refused.body.errors, [{ pointer }])
    }
    const added = await call('admin', 'users/', 'POST', body)
    t.match(added, { status: 201, body: { name: 'new', roles: ['viewer'], state: 'enabled' } })
    t.equal((await call('admin', 'users/', 'POST', body)).body.code, 'user_exists')
    tokens['new'] = await token(node.bidweir, 'new', 'secret-2')
    t.equal((await call('new', 'live/')).status, 200)
    t.equal((await call('admin', 'users/new/passwd/', 'POST', { password: 'x' })).status, 400)
    const changed = await call('admin', 'users/new/passwd/', 'POST', { password: 'secret-3' })
    t.match(changed, { status: 200, body: { name: 'new' } })
    t.equal(await token(node.bidweir, 'new', 'secret-2'), undefined, 'the old one is void')
    t.ok(await token(node.bidweir, 'new', 'secret-3'))
    t.match(await call('admin', 'users/new/remove/', 'POST'), {
      status: 200,
      body: { name: 'new' },
    })
    t.equal(await token(node.bidweir, 'new', 'secret-3'), undefined)
    t.equal((await call('admin', 'users/new/remove/', 'POST')).status, 404)
    t.equal((await call('admin', 'users/admin/remove/', 'POST')).status, 409, 'the last admin')
    const trail = (await call('admin', 'audit/?limit=3')).body
    t.match(trail, [
      { who: 'admin', action: 'user_remove', after: null },
      { who: 'admin', action: 'user_passwd' },
      { who: 'admin', action: 'user_add', before: null },
    ])
    t.notMatch(JSON.stringify(trail), /secret|scrypt/)
  })

  t.test('users: each name that is accepted can be changed by its call', async (t) => {
    const user = { password: 'secret-2', roles: [], account: 'a' }
    for (const name of ['a/b', 'a%2Fb', '?#', 'é😀']) {
      t.equal((await call('admin', 'users/', 'POST', { ...user, name })).status, 201, name)
      const removed = await call('admin', `users/${encodeURIComponent(name)}/remove/`, 'POST')
      t.match(removed, { status: 200, body: { name } })
    }
    const halfCharacter = await call('admin', 'users/', 'POST', { ...user, name: 'a\ud800' })
    t.match(halfCharacter, { status: 400, body: { errors: [{ pointer: '/name' }] } })
  })

  t.test('audit: a full page names the next one', async (t) => {
    const first = await call('admin', 'audit/?limit=2')
    const next = /^<\/api\/svc\/(audit\/\?[^>]+)>; rel="next"$/.exec(
      first.headers.get('link') ?? '',
    )
    t.ok(next, String(first.headers.get('link')))
    const second = await call('admin', next![1]!)
    t.equal(second.body[0].id, first.body[1].id - 1)
    t.equal((await call('admin', 'audit/?limit=1000')).headers.get('link'), null)
  })

  t.test('configuration: secrets are hidden, other accounts too', async (t) => {
    const all = (await call('admin', 'configuration/')).body
    t.notMatch(JSON.stringify(all), /hidden-\d|BwcHBw/)
    t.match(all.opd.keys, [{ id: 1, secret: '(hidden)' }])
    t.match(all.suppliers[0].endpoints, [/^http:\/\/127\.0\.0\.1:\d+\/\w+\?…$/])
    const configuration = (await call('eve', 'configuration/')).body
    t.same(Object.keys(configuration).sort(), ['currency', 'location', 'suppliers'])
    t.same(
      configuration.suppliers.map(({ id }: { id: string }) => id),
      ['acme', 'plain'],
    )
    t.equal(configuration.suppliers[0].opd.minFactor, 0.6, 'defaults and settings')
  })

  t.test('a bid id alone is explained; one of two suppliers must be named', async (t) => {
    await node.bid({ id: 'b1', price: 2 })
    t.match((await call('eve', 'decisions/?bid_id=b1')).body, { bid_id: 'b1', ssp: 'acme' })
    t.equal((await call('eve', 'decisions/?bid_id=b2')).status, 404)
    await node.bid({ id: 'b1', price: 2, ssp: 'twin' })
    const several = await call('admin', 'decisions/?bid_id=b1')
    t.equal(several.status, 409)
    t.match(several.body.errors, [{ pointer: 'ssp', detail: /^(acme, twin|twin, acme) .*ssp=/ }])
    const response = await call('eve', 'decisions/?bid_id=b1')
    t.equal(response.body.ssp, 'acme', 'suppliers of another account are not counted')
    t.equal((await call('admin', 'decisions/?bid_id=b1&ssp=twin')).body.ssp, 'twin')
    t.equal((await call('eve', 'decisions/?bid_id=b1&ssp=twin')).status, 404, 'of another account')
    t.equal((await call('eve', 'decisions/')).status, 400)
  })

  t.test(
    "the win curve is of known bids, and of suppliers of the caller's account alone",
    async (t) => {
      const unknown = await call('eve', 'curve/?ssp=acme')
      t.match(unknown, { status: 404, body: { code: 'too_few_bids' } }, 'nothing is made up')
      t.equal((await call('eve', 'curve/?ssp=twin')).status, 404, 'of another account')
      t.match(await call('eve', 'curve/?ssp=plain'), { status: 404, body: { code: 'opd_off' } })
      t.equal((await call('eve', 'curve/?ssp=acme&in=x')).status, 400)
      t.match(await call('eve', 'curve/?ssp=acme&floor=1'), {
        status: 400,
        body: { errors: [{ pointer: 'floor' }] },
      })
      const { body } = await call('eve', 'curve/?ssp=acme&publisher=pub-1&in=2')
      t.match(body, { mode: 'revenue', currency: 'USD', min_factor: 0.6, bids: null })
      const [low, high] = [body.points[0], body.points.at(-1)]
      t.match([low.factor, high.factor, high.kept, high.margin], [0.5, 1, 1, 0])
      t.ok(low.win <= high.win && low.win > 0 && high.win <= 1, 'a lower price wins less')
      t.equal(low.margin.toFixed(9), (1 * low.win).toFixed(9), '1 CPM less for each of the wins')
    },
  )
})
