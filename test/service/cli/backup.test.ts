/** A backup of database, keys and models while the service runs, and a node restored from it (CONTRACT 1). */
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { runHere } from '../../support/cli.ts'
import { command, newFolder } from '../../support/process.ts'
import { type ServedNode, serveNode } from '../../support/served-node.ts'
import { echoSupplier, type NodeOptions, startNode, yamlOf } from '../../support/service-node.ts'

const suppliers = ['id: acme, opd: {enabled: true, holdout: 0}']

async function world<Node extends ServedNode>(
  t: Test,
  start: (options: NodeOptions) => Promise<Node>,
) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const options = { suppliers, endpoint: supplier.url }
  const node = await start(options)
  t.teardown(() => node.stop())
  const bids = await node.bids([{ id: 'a' }, { id: 'b' }])
  const [first, second] = bids.map(({ id, price, svcOpd }) => ({
    ...{ bid_id: id, price: String(price), svc_opd: svcOpd },
  }))
  t.match((await node.notify(first!)).body, { status: 'attributed' })
  const run = (...argv: string[]) =>
    runHere([...argv, '--config', join(node.folder, 'bidweir.yaml')])
  return { node, options, first: first!, second: second!, run }
}

t.test('a node that is restored knows its old wins, its keys and its users', async (t) => {
  const { node, options, first, second, run } = await world(t, serveNode)
  const dir = join(newFolder(), 'copy')
  const made = await command(['backup', dir, '--config', 'bidweir.yaml'], { cwd: node.folder })
  t.match(
    made,
    { code: 0, stdout: `${dir}: database, keys, models and configuration\n` },
    made.stderr,
  )
  t.equal(statSync(join(dir, 'bidweir.db')).mode & 0o77, 0, 'nobody else reads it')
  t.match((await run('backup', dir)).stderr, /is not empty/)
  t.match((await node.notify(second)).body, { status: 'attributed' }, 'it runs meanwhile')

  const folder = newFolder()
  writeFileSync(join(folder, 'bidweir.yaml'), yamlOf(options))
  const restored = await command(['restore', dir, '--config', 'bidweir.yaml'], { cwd: folder })
  t.match(restored, { code: 0 }, restored.stderr)
  const other = await serveNode({ ...options, folder })
  t.teardown(() => other.stop())
  t.equal(other.bidweir.password, null, 'its users are there')
  t.match((await other.notify(first)).body, { status: 'duplicate' })
  t.match((await other.notify(second)).body, { status: 'attributed' }, 'of after the copy')
})

t.test('of a folder of backups the newest stay, and nothing else is removed', async (t) => {
  const { node, run, first } = await world(t, serveNode)
  const dir = newFolder()
  for (const name of ['2020-01-01T00-00-00.000Z', 'notes']) mkdirSync(join(dir, name))
  for (let n = 0; n < 3; n++) t.match(await run('backup', dir, '--keep', '2'), { code: 0 })
  const names = readdirSync(dir).sort()
  t.equal(names.length, 3, `${names}`)
  t.equal(names[2], 'notes')
  t.match(await run('backup', dir, '--keep', '0'), { code: 64 })
  await node.stop()
  const restored = await run('restore', join(dir, names[1]!), '--force')
  t.match(restored, { code: 0 }, restored.stderr)
  const again = await serveNode({ suppliers, endpoint: 'http://127.0.0.1:9/', folder: node.folder })
  t.teardown(() => again.stop())
  t.match((await again.notify(first)).body, { status: 'duplicate' })
})

t.test('a state in use is not replaced, nor one that is there without --force', async (t) => {
  const { node, options, first, second, run } = await world(t, startNode)
  const dir = join(newFolder(), 'copy')
  t.equal((await run('backup', dir)).code, 0)
  t.match((await node.notify(second)).body, { status: 'attributed' })
  const used = await run('restore', dir, '--force')
  t.equal(used.code, 75)
  t.match(used.stderr, `is in use by process ${node.bidweir.child.pid} on `)
  await node.stop('SIGKILL')
  // A process of its own, since the lock that it takes ends with it.
  const refused = await command(['restore', dir, '--config', 'bidweir.yaml'], { cwd: node.folder })
  t.equal(refused.code, 1)
  t.match(refused.stderr, /there is a state already: .*bidweir\.db.*--force/)
  const forced = await run('restore', dir, '--force')
  t.match(forced, { code: 0 }, forced.stderr)
  t.notOk(readdirSync(join(node.folder, 'data')).some((name) => /-wal|restored/.test(name)))
  const again = await serveNode({ ...options, folder: node.folder })
  t.teardown(() => again.stop())
  t.match((await again.notify(first)).body, { status: 'duplicate' })
  t.match(
    (await again.notify(second)).body,
    { status: 'attributed' },
    'the log of the old file is gone',
  )
})

t.test('what is no whole backup, or of another kind of store, is refused', async (t) => {
  const folder = newFolder()
  const pathOf = (name: string) => join(folder, name)
  const run = (...argv: string[]) => runHere([...argv, '--config', pathOf('c.yaml')])
  writeFileSync(pathOf('c.yaml'), 'location: here\n')
  mkdirSync(pathOf('empty'))
  const empty = await run('restore', pathOf('empty'))
  t.match(empty, { code: 1, stderr: /empty is no backup: backup\.json/ })
  t.match(await run('restore'), { code: 64 })
  t.match(await run('backup', 'a', 'b'), { code: 64 })
  t.match(await run('backup', pathOf('none')), {
    code: 1,
    stderr: /bidweir\.db does not open: the file is missing/,
  })
  t.same(readdirSync(pathOf('none')), [], 'no half of a copy')
  const key = Buffer.alloc(32, 7).toString('base64url')
  writeFileSync(
    pathOf('p.yaml'),
    `store: {database: "postgres://127.0.0.1:1/x"}\nopd: {keys: [{id: 1, secret: ${key}}]}\n`,
  )
  t.match(await runHere(['backup', pathOf('rows'), '--config', pathOf('p.yaml')]), {
    code: 1,
    stderr: /ECONNREFUSED/,
  })
  t.same(readdirSync(pathOf('rows')), [], 'no half of a copy')
  const without = await runHere([
    ...['backup', pathOf('keys'), '--no-database'],
    ...['--config', pathOf('p.yaml')],
  ])
  t.match(
    without,
    { code: 0, stdout: /keys, models and configuration, no database/ },
    without.stderr,
  )
  writeFileSync(pathOf('c.yaml'), 'stateDir: other\n')
  t.match(await run('restore', pathOf('keys')), { code: 1, stderr: /without a database/ })
})
