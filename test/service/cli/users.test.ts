/** The first user and its password, and `bidweir user` without and beside a running service (CONTRACT 1, 8, 9). */
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { runHere } from '../../support/cli.ts'
import { command, newFolder, startBidweir, token } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { yamlOf } from '../../support/service-node.ts'
import { httpSupplier } from '../../support/supplier.ts'

t.test('a start that fails at a taken port leaves the first password to the next', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const holder = createServer()
  await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve))
  const { port } = holder.address() as { port: number }
  t.teardown(async () => {
    holder.close()
    await supplier.close()
  })
  const folder = newFolder()
  const yaml = yamlOf({ endpoint: supplier.url, suppliers: ['id: acme'] })
  for (const listener of ['proxy', 'admin']) {
    const taken = yaml.replace(
      `${listener}: {listen: "127.0.0.1:0"`,
      `${listener}: {listen: "127.0.0.1:${port}"`,
    )
    await t.rejects(startBidweir(taken, folder), /EADDRINUSE/)
  }
  const bidweir = await startBidweir(yaml, folder)
  t.teardown(() => bidweir.stop())
  t.type(bidweir.password, 'string')
  t.type(await token(bidweir), 'string', 'and it opens')
  const data = join(folder, 'data')
  const files = readdirSync(data).filter((name) => statSync(join(data, name)).isFile())
  const databases = ['', '-shm', '-wal', '.lock', '.lock.json'].map((end) => `bidweir.db${end}`)
  t.same(files.sort(), [...databases, 'keys.json', 'lock', 'lock.json'])
  for (const name of files)
    t.equal(statSync(join(data, name)).mode & 0o077, 0, `${name} is its owner's alone`)
})

t.test('--config FILE and --config=FILE are one, without a file it is wrong usage', async (t) => {
  const cwd = newFolder()
  writeFileSync(join(cwd, 'c.yaml'), 'store: {database: "sqlite:here/b.db"}\n')
  const stdin = 'correct horse battery\n'
  const joined = await command(['user', 'add', 'ann', '--config=c.yaml'], { cwd, stdin })
  t.equal(joined.code, 0, joined.stderr)
  t.ok(existsSync(join(cwd, 'here/b.db')))
  const apart = await runHere(['user', '--config', join(cwd, 'c.yaml'), 'add', 'ann'], stdin)
  t.equal(apart.code, 1, 'ann is in the same store')
  t.match(apart.stderr, /already/)
  t.equal((await command(['user', 'add', 'bob', '--config'], { cwd, stdin })).code, 64)
  t.notOk(existsSync(join(cwd, 'data')), 'no other store was made')
})

t.test('users added meanwhile see what is theirs', async (t) => {
  const supplier = await httpSupplier((_request, response) => response.writeHead(204).end())
  const folder = newFolder()
  const suppliers = ['id: acme, account: acme-media', 'id: zeta, account: zeta-media', 'id: none']
  const node = await serveNode({ suppliers, endpoint: supplier.url, folder })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const config = ['--config', join(folder, 'bidweir.yaml')]
  const add = (name: string, ...options: string[]) =>
    runHere(['user', 'add', name, ...config, ...options], `${name} likes long passwords\n`)
  const as = async (name: string, path: string, init: RequestInit = {}) => {
    const access = await token(node.bidweir, name, `${name} likes long passwords`)
    const headers = { authorization: `Bearer ${access}`, 'content-type': 'application/json' }
    return fetch(`${node.admin}/api/svc/${path}`, { ...init, headers })
  }
  const added = [
    await command(
      [
        'user',
        'add',
        'ann',
        '--config',
        'bidweir.yaml',
        '--role',
        'api',
        '--account',
        'acme-media',
      ],
      { cwd: folder, stdin: 'ann likes long passwords\n' },
    ),
    await add('all', '--role', 'api', '--role', 'operator', '--account', '*'),
    await add('bob'),
  ]
  t.same(
    added.map(({ code, stderr }) => [code, stderr]),
    [
      [0, ''],
      [0, ''],
      [0, 'bidweir: warning: bob has no role and may call nothing\n'],
    ],
  )
  t.notOk(
    added.some(({ stdout }) => stdout.includes('passwords')),
    'nothing is echoed',
  )
  t.equal((await add('ann', '--role', 'api')).code, 1, 'a second account of one name is refused')

  const seen = async (name: string) =>
    ((await (await as(name, 'ssp/')).json()) as { id: string }[]).map(({ id }) => id)
  t.same(await seen('ann'), ['acme'])
  t.same(await seen('all'), ['acme', 'zeta', 'none'])
  t.equal((await as('bob', 'ssp/')).status, 403, 'without the role')
  t.equal((await as('ann', 'ssp/zeta/')).status, 404, 'another account is not there')
  t.equal((await as('ann', 'ssp/none/')).status, 404)
  const hold = { method: 'PUT', body: '{"hold":true}' }
  t.equal((await as('ann', 'opd/acme/', hold)).status, 403, 'a hold is an operator’s')
  t.equal((await as('all', 'opd/acme/', hold)).status, 200)

  const user = (verb: string, name: string, stdin = '') =>
    runHere(['user', verb, name, ...config], stdin)
  t.equal((await user('disable', 'ann')).code, 0)
  t.equal(await token(node.bidweir, 'ann', 'ann likes long passwords'), undefined)
  t.equal((await user('enable', 'ann')).code, 0)
  t.equal((await user('passwd', 'ann', 'ann has another one\n')).code, 0)
  t.equal(await token(node.bidweir, 'ann', 'ann likes long passwords'), undefined)
  t.type(await token(node.bidweir, 'ann', 'ann has another one'), 'string')
  const list = await runHere(['user', 'list', ...config])
  t.match(list.stdout, /^ann +api +acme-media +enabled +20\d\d-.*Z$/m, 'with the last log-in')
  t.match(list.stdout, /^bob +- +- +enabled +20/m)
  t.equal((await user('remove', 'ann')).code, 0)
  t.equal(await token(node.bidweir, 'ann', 'ann has another one'), undefined)
})

t.test('a password that is given works, and is not in the output', async (t) => {
  const given = 'given-by-a-secret'
  const bidweir = await startBidweir(
    `proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", auth: {embedded: {adminPassword: ${given}}}}
drain: {grace: 0ms}
`,
  )
  t.teardown(() => bidweir.stop())
  t.type(await token(bidweir, 'admin', given), 'string')
  t.match(bidweir.stdout(), /^user +admin$/m)
  t.notMatch(bidweir.stdout() + bidweir.stderr(), given)
})
