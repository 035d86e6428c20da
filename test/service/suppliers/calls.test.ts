/** Suppliers of the API: created, changed, deleted and reverted, on both stores (CONTRACT 14). */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { suppliersOf } from '../../support/api-suppliers.ts'
import { runHere } from '../../support/cli.ts'
import { newFolder, token } from '../../support/process.ts'
import { walkThroughSuppliers } from '../../support/readme.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { type Database, onBoth } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')

async function world(t: Test, { url }: Database) {
  const supplier = await echoSupplier()
  const node = await serveNode({
    endpoint: supplier.url,
    more: `store: {database: "${url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
    suppliers: ['id: filed, account: acme-media', 'id: other'],
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const block = { id: 'acme', account: 'acme-media', endpoints: [supplier.url], timeout: '20s' }
  return { node, block, config: join(node.folder, 'bidweir.yaml'), ...suppliersOf(node) }
}

onBoth(async (t, database) => {
  const { node, block, config, call, change, bid } = await world(t, database)

  t.test('a supplier that is added has bids, and one that is deleted is 404', async (t) => {
    t.equal(await bid('acme'), 404)
    const added = await call('POST', '', block)
    t.match([added.status, added.body], [201, { ...block, origin: 'api', version: 1 }])
    t.equal(added.headers.get('etag'), '"1"')
    t.equal(added.headers.get('location'), '/api/svc/suppliers/acme/')
    t.equal(await bid('acme'), 200, 'in effect when the call returns')
    t.match((await call('POST', '', block)).body, { status: 409, code: 'exists' })
    t.same((await call('GET', 'acme/')).body, { ...block, origin: 'api', version: 1 })
    const { body } = await call('GET')
    t.same(
      body.map(({ id, origin }: { id: string; origin: string }) => [id, origin]),
      [
        ['acme', 'api'],
        ['filed', 'file'],
        ['other', 'file'],
      ],
    )
    t.equal((await node.api('/api/svc/ssp/acme/')).status, 200, 'with seats and data centers')
    t.equal((await change('DELETE', 'acme')).status, 204)
    t.equal(await bid('acme'), 404)
    t.equal((await call('GET', 'acme/')).status, 404)
    t.equal((await node.api('/api/svc/ssp/acme/')).status, 404)
    t.equal((await call('DELETE', 'acme/', undefined, { 'if-match': '*' })).status, 404)
  })

  t.test('a deleted id belongs to its account', async (t) => {
    const taken = await call('POST', '', { ...block, account: 'somebody-else' })
    t.match([taken.status, taken.body.code], [409, 'reserved'])
    t.match(taken.body.errors, [{ pointer: '/account', detail: /account acme-media/ }])
    const again = await call('POST', '', block)
    t.match([again.status, again.body.version], [201, 3], 'its versions go on')
  })

  t.test('PUT, PATCH and DELETE name what they are based on', async (t) => {
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const body = method === 'DELETE' ? undefined : block
      const without = await call(method, 'acme/', body)
      t.match([without.status, without.body.code], [428, 'precondition_required'], method)
      const old = await call(method, 'acme/', body, { 'if-match': '"1"' })
      t.match([old.status, old.body.code], [412, 'outdated'], method)
    }
    const put = await change('PUT', 'acme', { ...block, timeout: '19s' })
    t.match([put.status, put.body.timeout, put.headers.get('etag')], [200, '19s', '"4"'])
    const same = await change('PUT', 'acme', put.body)
    t.match([same.status, same.body.version], [200, 4], 'what changes nothing is no version')
    const patched = await change('PATCH', 'acme', { name: 'Acme', opd: { enabled: 'shadow' } })
    t.match(patched.body, { timeout: '19s', name: 'Acme', opd: { enabled: 'shadow' }, version: 5 })
    const merged = await change('PATCH', 'acme', { name: null, opd: { share: 0.5 } })
    t.same(merged.body.opd, { enabled: 'shadow', share: 0.5 })
    t.notOk('name' in merged.body, 'null removes a key (RFC 7396)')
    const renamed = await change('PATCH', 'acme', { id: 'zed' })
    t.match([renamed.status, renamed.body.errors[0].pointer], [422, '/id'])
    const prototype = await node.api('/api/svc/suppliers/acme/', {
      ...{ method: 'PATCH', body: '{"__proto__":{"timeout":"1s"}}' },
      headers: { 'content-type': 'application/merge-patch+json', 'if-match': '*' },
    })
    t.equal(prototype.status, 422, 'a key that is not known')
    const none = await call('PUT', 'nobody/', block, { 'if-match': '*' })
    t.equal(none.status, 404)
  })

  t.test('a character that PostgreSQL cannot store is in no id and no account', async (t) => {
    const id = 'a%00b/'
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const body = method === 'GET' || method === 'DELETE' ? undefined : block
      const { status } = await call(method, id, body, { 'if-match': '*' })
      t.equal(status, 404, method)
    }
    t.equal((await call('GET', `${id}history/`)).status, 404)
    t.equal((await call('POST', `${id}revert/`, { version: 1 })).status, 404)
    const refused = await call('POST', '', { ...block, id: 'zed', account: 'a\0b' })
    t.match([refused.status, refused.body.errors], [422, [{ pointer: '/account' }]])
  })

  t.test('of many changes based on one version, one wins, and nothing is lost', async (t) => {
    const { headers } = await call('GET', 'acme/')
    const match = { 'if-match': headers.get('etag')! }
    const asked = Array.from({ length: 8 }, (_, n) => ({ timeout: `${10 + n}s` }))
    const got = await Promise.all(asked.map((patch) => call('PATCH', 'acme/', patch, match)))
    t.same(got.map(({ status }) => status).sort(), [200, ...Array(7).fill(412)])
    const winner = asked[got.findIndex(({ status }) => status === 200)]!
    t.match((await call('GET', 'acme/')).body, winner)
  })

  t.test('history says who changed what, and a version can be returned to', async (t) => {
    const { body } = await call('GET', 'acme/history/?limit=100')
    t.match(body.at(-1), { version: 1, who: 'admin', action: 'supplier_create', supplier: block })
    t.match(body.at(-2), { version: 2, action: 'supplier_delete', supplier: null })
    t.same(body.at(-4), {
      ...body.at(-4),
      version: 4,
      difference: [{ pointer: '/timeout', before: '20s', after: '19s' }],
    })
    const versions = body.map(({ version }: { version: number }) => version)
    t.same(
      versions,
      [...versions].sort((one, other) => other - one),
    )
    const page = await call('GET', 'acme/history/?limit=2&before=3')
    t.same(
      page.body.map(({ version }: { version: number }) => version),
      [2, 1],
    )
    const reverted = await call('POST', 'acme/revert/', { version: 4 })
    t.match([reverted.status, reverted.body.timeout], [200, '19s'])
    const newest = await call('GET', 'acme/history/?limit=1')
    t.match(newest.body, [{ action: 'supplier_revert', version: reverted.body.version }])
    for (const version of [2, 999])
      t.match((await call('POST', 'acme/revert/', { version })).status, 422)
    t.equal((await change('DELETE', 'acme')).status, 204)
    t.equal((await call('POST', 'acme/revert/', { version: 4 })).status, 201, 'after a deletion')
    t.equal(await bid('acme'), 200)
  })

  t.test('each change is in the audit trail with its difference', async (t) => {
    await change('PATCH', 'acme', { timeout: '18s', opd: { enabled: true } })
    const response = await node.api('/api/svc/audit/?ssp=acme&limit=1')
    const [entry] = (await response.json()) as object[]
    t.match(entry, {
      who: 'admin',
      action: 'supplier_update',
      before: { timeout: '19s' },
      after: { timeout: '18s', opd: { enabled: true } },
    })
    t.notOk(JSON.stringify(entry).includes('endpoints'), 'what stays is not in it')
  })

  t.test('suppliers of the file are read-only, and the answer names the file', async (t) => {
    const match = { 'if-match': '*' }
    for (const [method, path, body] of [
      ['POST', '', { ...block, id: 'filed' }],
      ['PUT', 'filed/', { ...block, id: 'filed' }],
      ['PATCH', 'filed/', { timeout: '1s' }],
      ['DELETE', 'filed/', undefined],
      ['POST', 'filed/revert/', { version: 1 }],
      ['PUT', '', [{ ...block, id: 'filed' }]],
    ] as const) {
      const refused = await call(method, path, body, match)
      t.match([refused.status, refused.body.code], [409, 'file_supplier'], `${method} ${path}`)
      t.match(refused.body.errors[0].detail, config)
    }
    t.match((await call('GET', 'filed/')).body, { id: 'filed', origin: 'file' })
  })

  t.test('a dry run and the call itself name the faults that check names', async (t) => {
    const wrong = {
      ...{ id: 'Wrong', timeout: 2, endpoint: 'x', endpoints: ['ftp://x'] },
      opd: { enabled: 'maybe', minFactor: 7, exclude: { seats: [1] } },
    }
    const file = join(newFolder(), 'wrong.yaml')
    writeFileSync(file, JSON.stringify({ suppliers: [wrong] }))
    const { stderr } = await runHere(['check', '--config', file])
    const named = stderr
      .trim()
      .split('\n')
      .map((line) => /suppliers\[0\]\.(.*?): (found .*)$/.exec(line)!.slice(1))
    t.ok(named.length >= 6, stderr)
    for (const query of ['', '?dryRun=true']) {
      const { status, body } = await call('POST', query, wrong)
      t.equal(status, 422)
      t.same(
        body.errors.map(({ pointer, detail }: { pointer: string; detail: string }) => [
          pointer.slice(1).replace('/0', '[0]').replaceAll('/', '.'),
          detail,
        ]),
        named,
      )
    }
    const oddNames = { 'x.key': 'a', 'a/b~c': 'a' }
    const quoted = await call('POST', '?dryRun=true', { ...block, callers: { headers: oddNames } })
    t.same(
      quoted.body.errors.map(({ pointer }: { pointer: string }) => pointer),
      ['/callers/headers/x.key', '/callers/headers/a~1b~0c'],
      'a key with a point, or with a slash, is one part of its pointer',
    )
    const before = (await call('GET', 'acme/')).body
    const opd = await change('PATCH', 'acme', { opd: { minFactor: 7 } })
    t.match([opd.status, opd.body.errors[0].pointer], [422, '/opd/minFactor'], 'opd as well')
    t.same((await call('GET', 'acme/')).body, before)
  })

  t.test('a dry run changes nothing and says what would change', async (t) => {
    const before = (await call('GET', 'acme/')).body
    const dry = await change('PATCH', 'acme', { timeout: '17s' }, '?dryRun=true')
    t.match([dry.status, dry.body.dryRun, dry.body.faults], [200, true, []])
    t.same(dry.body.difference, [{ pointer: '/timeout', before: '18s', after: '17s' }])
    t.equal((await call('POST', '?dryRun=true', { ...block, id: 'never' })).status, 200)
    t.match((await call('DELETE', 'acme/?dryRun=true')).body, { supplier: null })
    t.same((await call('GET', 'acme/')).body, before)
    t.equal((await call('GET', 'never/')).status, 404)
  })

  t.test('a list is applied as a whole', async (t) => {
    const { origin: _origin, version: _version, ...acme } = (await call('GET', 'acme/')).body
    const bolt = { ...block, id: 'bolt' }
    const wrong = await call('PUT', '', [bolt, { ...block, id: 'zed', timeout: 'x' }])
    t.match([wrong.status, wrong.body.errors[0].pointer], [422, '/1/timeout'])
    t.equal((await call('GET', 'bolt/')).status, 404, 'all or nothing')
    const twice = await call('PUT', '', [bolt, bolt])
    t.match([twice.status, twice.body.errors[0].pointer], [422, '/1/id'])
    const asked = [bolt, { ...acme, timeout: '16s' }]
    const result = {
      ...{ created: ['bolt'], changed: ['acme'], deleted: [], unchanged: [] },
      difference: { acme: [{ pointer: '/timeout', before: '18s', after: '16s' }] },
    }
    t.same((await call('PUT', '?dryRun=true', asked)).body, { dryRun: true, ...result })
    t.equal(await bid('bolt'), 404)
    t.same((await call('PUT', '', asked)).body, { dryRun: false, ...result })
    t.equal(await bid('bolt'), 200)
    const tag = (await call('GET')).headers.get('etag')!
    const less = await call('PUT', '', { suppliers: [bolt] }, { 'if-match': tag })
    t.match(less.body, { deleted: ['acme'], unchanged: ['bolt'] })
    t.equal((await call('PUT', '', [], { 'if-match': tag })).status, 412)
    t.same([await bid('acme'), await bid('bolt'), await bid('filed')], [404, 200, 200])
  })

  t.test('bidweir diff and apply do the same with a file', async (t) => {
    const list = join(newFolder(), 'list.yaml')
    const options = ['-f', list, '--config', config]
    writeFileSync(list, JSON.stringify({ suppliers: [{ ...block, timeout: '15s' }] }))
    const diff = await runHere(['diff', ...options])
    t.match([diff.code, diff.stdout], [1, /^\+ acme\n- bolt\n1 created, 0 changed, 1 deleted/])
    const dry = await runHere(['apply', '--dry-run', ...options])
    t.match([dry.code, dry.stdout], [0, /dry run: nothing is changed/])
    t.equal(await bid('acme'), 404)
    const applied = await runHere(['apply', ...options])
    t.match([applied.code, applied.stderr], [0, ''])
    await until(async () => (await bid('acme')) === 200 && (await bid('bolt')) === 404)
    t.match(await runHere(['diff', ...options]), { code: 0, stdout: /1 unchanged/ })
    const [entry] = (await (await node.api('/api/svc/audit/?limit=1')).json()) as object[]
    t.match(entry, { who: 'bidweir apply' })
    writeFileSync(list, 'suppliers:\n  - id: acme\n    timeout: 2\n  - id: filed\n')
    const wrong = await runHere(['apply', ...options])
    t.match([wrong.code, wrong.stdout], [1, ''])
    t.match(
      wrong.stderr,
      /list\.yaml:4: suppliers\[1\]\.id: filed is a supplier of .*bidweir\.yaml/,
    )
    writeFileSync(list, 'suppliers:\n  - id: acme\n    timeout: 2\n')
    const fault = await runHere(['apply', ...options])
    t.match(fault.stderr, /list\.yaml:3: suppliers\[0\]\.timeout: found 2, allowed: a duration/)
    for (const text of ['', 'location: x\nsuppliers: []\n']) {
      writeFileSync(list, text)
      t.equal((await runHere(['apply', ...options])).code, 1, 'a list of nothing says so itself')
    }
    t.equal((await runHere(['apply', '-f', '/absent', '--config', config])).code, 66)
    t.equal(await bid('acme'), 200)
  })

  t.test(
    'apply --if-match changes nothing if a supplier has changed since the difference',
    async (t) => {
      const list = join(newFolder(), 'list.yaml')
      const options = ['-f', list, '--config', config]
      writeFileSync(list, JSON.stringify([{ ...block, timeout: '14s' }]))
      const revisionOf = ({ stdout }: { stdout: string }) => /^revision (\d+)$/m.exec(stdout)![1]!
      const seen = revisionOf(await runHere(['diff', ...options]))
      const { body: before } = await change('PATCH', 'acme', { timeout: '13s' })
      for (const more of [[], ['--dry-run']]) {
        const refused = await runHere(['apply', ...more, '--if-match', seen, ...options])
        t.match(refused, { code: 1, stdout: '', stderr: `changed since revision ${seen}` })
      }
      t.equal((await call('GET', 'acme/')).body.timeout, before.timeout)
      const now = revisionOf(await runHere(['apply', '--dry-run', ...options]))
      t.match(await runHere(['apply', '--if-match', now, ...options]), { code: 0, stderr: '' })
      t.equal((await call('GET', 'acme/')).body.timeout, '14s')
      const wrong = await runHere(['apply', '--if-match', '"x"', ...options])
      t.match(wrong, { code: 64, stderr: /A revision as `bidweir diff` prints it/ })
    },
  )

  t.test('secrets are references, and are never shown', async (t) => {
    const folder = newFolder()
    const secret = Buffer.alloc(32, 7).toString('base64')
    writeFileSync(join(folder, 'key'), secret)
    const withKeys = (encryption: unknown, value: unknown) => ({
      ...{ ...block, id: 'sealed' },
      callers: { headers: { 'x-key': value } },
      clearing: { encoding: 'google', keys: { encryption, integrity: '${SUPPLIER_KEY}' } },
    })
    process.env['SUPPLIER_KEY'] = secret
    t.teardown(() => delete process.env['SUPPLIER_KEY'])
    const reference = { file: join(folder, 'key') }
    const plain = await call('POST', '', withKeys(secret, 'open'))
    t.same(plain.body.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
      '/callers/headers/x-key',
      '/clearing/keys/encryption',
    ])
    t.notMatch(JSON.stringify(plain.body), secret)
    const missing = await call('POST', '', withKeys({ file: '/absent' }, reference))
    t.match(missing.body.errors, [
      { pointer: '/clearing/keys/encryption', detail: /cannot be read/ },
    ])
    writeFileSync(join(folder, 'large'), 'x'.repeat(4097))
    const large = await call('POST', '', withKeys({ file: join(folder, 'large') }, reference))
    const reason = ({ detail }: { detail: string }) => detail.replace(/\{.*?\}/, '')
    t.same(large.body.errors.map(reason), missing.body.errors.map(reason), 'nor whether it exists')
    const other = await call('POST', '', { ...withKeys(reference, reference), name: '${HOME}' })
    t.match(other.body.errors, [{ pointer: '/name' }], 'what answers show is no reference')
    const added = await call('POST', '', withKeys(reference, '${SUPPLIER_KEY}'))
    t.equal(added.status, 201, JSON.stringify(added.body))
    t.same(added.body.clearing.keys, { encryption: reference, integrity: '${SUPPLIER_KEY}' })
    t.equal(await bid('sealed'), 403, 'the value of the header is wanted')
    const shown = await Promise.all(
      ['', 'sealed/', 'sealed/history/'].map(async (path) => (await call('GET', path)).body),
    )
    const audit = await (await node.api('/api/svc/audit/')).text()
    const configuration = await (await node.api('/api/svc/configuration/')).text()
    const diff = await change('PATCH', 'sealed', { timeout: '1s' }, '?dryRun=true')
    for (const text of [
      JSON.stringify([shown, diff.body]),
      audit,
      configuration,
      node.bidweir.stderr(),
    ])
      t.notMatch(text, secret)
  })

  t.test(
    'a value is never a variable, also if it spells one as the YAML reader does',
    async (t) => {
      const secret = 'of-the-node'
      process.env['NODE_SECRET'] = secret
      t.teardown(() => delete process.env['NODE_SECRET'])
      const name = 'a \ue000NODE_SECRET\ue001'
      const endpoints = [`${block.endpoints[0]}?\ue000NODE_SECRET\ue001`]
      const added = await call('POST', '', { ...block, id: 'spelled', name, endpoints })
      t.match([added.status, added.body.name], [201, name])
      const shown = await Promise.all(
        ['configuration/', 'ssp/spelled/'].map(async (path) =>
          (await node.api(`/api/svc/${path}`)).text(),
        ),
      )
      t.match(shown, [/spelled/, /a \ue000NODE_SECRET\ue001/])
      t.notMatch(shown.join(), secret)
      t.equal((await change('DELETE', 'spelled')).status, 204)
      const list = join(newFolder(), 'list.yaml')
      for (const spelled of ['${NODE_SECRET}', '\\uE000NODE_SECRET\\uE001']) {
        writeFileSync(list, `- {id: spelled, name: "${spelled}", endpoints: ["http://x/"]}\n`)
        const refused = await runHere(['apply', '-f', list, '--config', config])
        t.match(
          refused.stderr,
          /suppliers\[0\]\.name: found text|suppliers\[0\]\.name: found a reference/,
        )
        t.notMatch(refused.stdout + refused.stderr, secret)
      }
    },
  )

  t.test('a list of a supplier is as long as in the file', async (t) => {
    const cidrs = Array.from({ length: 1001 }, (_, n) => `10.0.${n >> 8}.${n & 255}/32`)
    const long = { ...block, id: 'long', callers: { cidrs } }
    t.equal((await call('POST', '', long)).status, 201)
    t.equal((await change('PUT', 'long', { ...long, name: 'Long' })).status, 200)
    t.equal((await change('PATCH', 'long', { callers: { cidrs: cidrs.toReversed() } })).status, 200)
    t.equal((await change('DELETE', 'long')).status, 204)
  })

  t.test('a version of another account is neither shown nor returned to', async (t) => {
    await call('POST', '', { ...block, id: 'moved', account: 'former', name: 'of-former' })
    await change('PATCH', 'moved', { account: 'acme-media', name: 'Moved' })
    const argv = ['user', 'add', 'reader', '--config', config, '--role', 'operator']
    await runHere([...argv, '--account', 'acme-media'], 'reader-password')
    const access = await token(node.bidweir, 'reader', 'reader-password')
    const response = await fetch(`${node.admin}/api/svc/suppliers/moved/history/`, {
      headers: { authorization: `Bearer ${access}` },
    })
    const text = await response.text()
    t.match(JSON.parse(text), [{ version: 2 }])
    t.notMatch(text, /former/)
    t.equal((await change('DELETE', 'moved')).status, 204)
    const taken = await call('POST', 'moved/revert/', { version: 1 })
    t.match([taken.status, taken.body.code], [409, 'reserved'])
    t.equal((await call('POST', 'moved/revert/', { version: 2 })).status, 201)
    t.equal((await change('DELETE', 'moved')).status, 204)
  })

  t.test('the commands of the document do what it says', async (t) => {
    const { password } = node.bidweir
    const answers = await walkThroughSuppliers({ api: node.admin, password: password! })
    t.match(answers, [
      { id: 'delta', version: Number },
      { dryRun: true, difference: [{ pointer: '/timeout' }] },
      { timeout: '100ms', version: Number },
      [{ difference: [{ pointer: '/timeout', after: '100ms' }] }],
      { version: Number, timeout: undefined },
    ])
    t.equal((await call('GET', 'delta/')).status, 404)
  })

  t.test('only operators call it, and an account reads its own suppliers', async (t) => {
    const people = { op: ['operator', 'acme-media'], api: ['api', '*'] } as const
    const status = async (name: keyof typeof people, method: string, path: string) => {
      const [role, account] = people[name]
      const argv = ['user', 'add', name, '--config', config, '--role', role, '--account', account]
      await runHere(argv, `${name}-password`)
      const access = await token(node.bidweir, name, `${name}-password`)
      const response = await fetch(`${node.admin}/api/svc/suppliers/${path}`, {
        method,
        headers: { authorization: `Bearer ${access}`, 'if-match': '*' },
      })
      return { status: response.status, text: await response.text() }
    }
    t.equal((await status('api', 'GET', '')).status, 403)
    const ownStatus = await status('op', 'GET', '')
    t.same(
      (JSON.parse(ownStatus.text) as { id: string }[]).map(({ id }) => id),
      ['acme', 'filed', 'sealed'],
    )
    t.equal((await status('op', 'GET', 'acme/')).status, 200)
    t.equal((await status('op', 'GET', 'acme/history/')).status, 200)
    for (const path of ['other/', 'bolt/history/', 'nobody/'])
      t.equal((await status('op', 'GET', path)).status, path === 'bolt/history/' ? 200 : 404, path)
    t.equal((await status('op', 'DELETE', 'acme/')).status, 403, 'account * changes')
  })

  t.test('if the file names an id of the API, the file is used, and it is said', async (t) => {
    const yaml = readFileSync(config, 'utf8')
    const gauge = async (name: string) => (await node.metrics()).get(name)
    const before = node.bidweir.stderr().length
    writeFileSync(config, yaml.replace('id: other', 'id: acme, callers: {cidrs: [192.0.2.1]}'))
    process.emit('SIGHUP')
    await until(async () => (await bid('acme')) === 403)
    t.equal(await gauge('bidweir_supplier_conflicts'), 1)
    t.match(node.bidweir.stderr().slice(before), /the file and the API both have this supplier/)
    t.match((await call('GET', 'acme/')).body, { origin: 'file', stored_version: Number })
    t.equal((await change('PATCH', 'acme', { timeout: '1s' })).status, 409)
    writeFileSync(config, yaml)
    process.emit('SIGHUP')
    await until(async () => (await bid('acme')) === 200)
    t.equal(await gauge('bidweir_supplier_conflicts'), 0)
    t.equal(await gauge('bidweir_suppliers{origin="api"}'), 2)
    t.equal(await gauge('bidweir_suppliers{origin="file"}'), 2)
  })
})
