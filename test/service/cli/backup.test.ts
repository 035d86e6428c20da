/** A backup of database, keys and models while the service runs, and a node restored from it (CONTRACT 1). */
import {
  cpSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
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

t.test('a damaged backup is refused and costs nothing of the state', async (t) => {
  const { node, first, run } = await world(t, serveNode)
  const good = join(newFolder(), 'copy')
  t.equal((await run('backup', good)).code, 0)
  await node.stop()
  const data = join(node.folder, 'data')
  // A process each, since the lock that it takes ends with it.
  const restore = (dir: string) =>
    command(['restore', dir, '--force', '--config', 'bidweir.yaml'], { cwd: node.folder })
  const changes: Record<string, (dir: string) => void> = {
    'it has no bidweir.db': (dir) => rmSync(join(dir, 'bidweir.db')),
    'bidweir.db: ': (dir) =>
      truncateSync(join(dir, 'bidweir.db'), statSync(join(dir, 'bidweir.db')).size / 2),
    'file is not a database': (dir) => writeFileSync(join(dir, 'bidweir.db'), 'x'.repeat(9000)),
    'no such table: migrations': (dir) => writeFileSync(join(dir, 'bidweir.db'), ''),
    'newer version (002-later)': (dir) => {
      const copy = new DatabaseSync(join(dir, 'bidweir.db'))
      copy.exec("insert into migrations values ('required:002-later', 0)")
      copy.close()
    },
    'backup.json: Unexpected end': (dir) => writeFileSync(join(dir, 'backup.json'), ''),
    'names no kind of database': (dir) => writeFileSync(join(dir, 'backup.json'), '{}'),
    'keys.json has no context keys': (dir) => writeFileSync(join(dir, 'keys.json'), '[]'),
  }
  const before = new Map(readdirSync(data).map((name) => [name, statSync(join(data, name)).ino]))
  for (const [why, change] of Object.entries(changes)) {
    const bad = join(newFolder(), 'bad')
    cpSync(good, bad, { recursive: true })
    change(bad)
    const { code, stderr } = await restore(bad)
    t.equal(code, 1, why)
    t.match(stderr, why)
    t.match(stderr, bad, 'it names the place')
  }
  const inside = join(data, 'models', 'copy')
  cpSync(good, inside, { recursive: true })
  t.match(await restore(inside), { code: 1, stderr: /is in .*models, which/ })
  rmSync(inside, { recursive: true })
  for (const [name, ino] of before) t.equal(statSync(join(data, name)).ino, ino, name)
  t.notOk(readdirSync(data).some((name) => name.includes('restored')))
  const again = await serveNode({ suppliers, endpoint: 'http://127.0.0.1:9/', folder: node.folder })
  t.teardown(() => again.stop())
  t.match((await again.notify(first)).body, { status: 'duplicate' })
})

t.test('of two backups into one folder one is written, as a whole', async (t) => {
  const { run } = await world(t, serveNode)
  for (let n = 0; n < 5; n++) {
    const dir = join(newFolder(), 'copy')
    const results = await Promise.all([run('backup', dir), run('backup', dir)])
    t.same(results.map(({ code }) => code).sort(), [0, 1])
    t.match(results.find(({ code }) => code === 1)!.stderr, /copy is not empty/)
    t.same(
      readdirSync(dir).filter((name) => name.startsWith('backup.json')),
      ['backup.json'],
    )
    t.ok(statSync(join(dir, 'bidweir.db')).size > 0)
  }
})

t.test('a state folder whose keys cannot be read makes no new ones', async (t) => {
  const { node } = await world(t, serveNode)
  await node.stop()
  writeFileSync(join(node.folder, 'data/keys.json'), '')
  const { code, stderr } = await command(['start', '--config', 'bidweir.yaml'], {
    cwd: node.folder,
  })
  t.equal(code, 1)
  t.match(stderr, /data\/keys\.json has no context keys/)
})
