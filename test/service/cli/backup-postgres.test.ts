/** A backup of a node on PostgreSQL and Redis by another process without its folder, and a restore into empty ones. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import t, { type Test } from 'tap'
import { runHere } from '../../support/cli.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { command, newFolder, token } from '../../support/process.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { absent as s3Absent, startS3 } from '../../support/s3.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier, startNode, yamlOf } from '../../support/service-node.ts'
import { startLimit, until } from '../../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')
const site = { domain: 'd1.example', publisher: { id: 'p1' } }

async function stores(t: Test) {
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()])
  t.teardown(() => Promise.all([redis.stop(), postgres.close()]))
  return {
    postgres,
    redis,
    more: `store: {database: "${postgres.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: {file: key}}]}`,
  }
}

function folderOf(yaml: string): string {
  const folder = newFolder()
  writeFileSync(join(folder, 'key'), `${key}\n`)
  writeFileSync(join(folder, 'bidweir.yaml'), yaml)
  return folder
}

/** Every row of every table as text. */
async function allRows(url: string): Promise<Record<string, string[]>> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows: tables } = await client.query<{ name: string }>(
    "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition",
  )
  const found: Record<string, string[]> = {}
  for (const { name } of tables) {
    const { rows } = await client.query(`select t::text as row from "${name}" as t order by 1`)
    found[name] = rows.map(({ row }) => row as string)
  }
  await client.end()
  return found
}

async function world(t: Test) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const made = await stores(t)
  const options = {
    ...{ endpoint: supplier.url, more: made.more },
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
  }
  const node = await startNode({ ...options, folder: folderOf(yamlOf(options)) })
  t.teardown(() => node.stop())
  // Each mode shares its first model soon after the start. The next one has all that was learned meanwhile.
  const shared = async () =>
    (await node.metrics()).get('bidweir_model_shared_total{result="written"}')!
  await until(async () => (await shared()) === 2, { limit: startLimit })
  const notices: Record<string, string>[] = []
  for (let n = 0; n < 60; n++) {
    const { id, price, svcOpd } = await node.bid({ id: `b${n}`, price: 2, request: { site } })
    notices.push({ bid_id: id, price: String(price), svc_opd: svcOpd })
  }
  for (const notice of notices.slice(0, 59)) await node.notify(notice)
  const path = '/api/svc/curve/?ssp=acme&publisher=p1&domain=d1.example&in=2'
  const chances = async (node: { admin: string }, token: string) => {
    const answer = await fetch(`${node.admin}${path}`, {
      headers: { authorization: `Bearer ${token}` },
    })
    const { points } = (await answer.json()) as { points: { win: number }[] }
    return points.map(({ win }) => win)
  }
  return { ...made, supplier, options, node, notices, chances, shared }
}

/** A pod of a CronJob: the configuration, and a folder of its own. */
const jobFolder = (options: Parameters<typeof yamlOf>[0]) => folderOf(yamlOf(options))

t.test(
  'what is restored into other stores is what was there',
  {
    skip: postgresAbsent || redisAbsent || s3Absent,
  },
  async (t) => {
    const { node, options, postgres, notices, chances, supplier, shared } = await world(t)
    const password = node.bidweir.password!
    const learned = await chances(node, await node.login())
    const s3 = await startS3()
    t.teardown(() => s3.close())
    const env = { ...process.env, ...s3.env }
    const job = jobFolder(options)
    // The node that leads shares its whole model within half a minute of a change.
    await until(async () => (await shared()) > 2, { limit: startLimit })
    for (let n = 0; n < 2; n++) {
      const made = await command(
        ['backup', 's3://backups/bids', '--keep', '1', '--config', 'bidweir.yaml'],
        { cwd: job, env },
      )
      t.match(made, { code: 0, stderr: '' })
      t.match(
        made.stdout,
        /^s3:\/\/backups\/bids\/20[\dTZ.-]+: database, keys, models and configuration\n$/,
      )
    }
    const names = await s3.list('backups')
    const folders = new Set(names.map((name) => name.split('/').slice(0, 2).join('/')))
    t.equal(folders.size, 1, 'one backup is kept')
    t.ok(names.some((name) => /\/models\/revenue-/.test(name)))
    const [backup = ''] = folders

    const used = await command(['restore', `s3://backups/${backup}`, '--config', 'bidweir.yaml'], {
      ...{ cwd: job, env },
    })
    t.match(used, { code: 75, stderr: /a node works with the database/ }, 'in use')

    // Another place, where nothing is left of the first one.
    await node.stop()
    const before = await allRows(postgres.url)
    const other = await stores(t)
    const otherOptions = { ...options, endpoint: supplier.url, more: other.more }
    const folder = jobFolder(otherOptions)
    const restored = await command(
      ['restore', `s3://backups/${backup}`, '--config', 'bidweir.yaml'],
      { cwd: folder, env },
    )
    t.match(restored, { code: 0 }, restored.stderr)
    const after = await allRows(other.postgres.url)
    t.same(Object.keys(after).sort(), Object.keys(before).sort())
    for (const table of ['ledger_days', 'users', 'signing_keys', 'decided', 'arm_days', 'audit'])
      t.same(after[table], before[table], table)

    const again = await serveNode({ ...otherOptions, folder: jobFolder(otherOptions) })
    t.teardown(() => again.stop())
    t.equal(again.bidweir.password, null, 'its users are there')
    t.match((await again.notify(notices[0]!)).body, { status: 'duplicate' })
    t.match((await again.notify(notices[59]!)).body, { status: 'attributed' }, 'by the context')
    const curve = await chances(again, await token(again.bidweir, 'admin', password))
    const apart = Math.max(...curve.map((win, n) => Math.abs(win - learned[n]!)))
    t.ok(apart < 0.05, `it prices as before: ${apart}`)
  },
)

t.test(
  'a folder has the configuration with its keys, and rows only once',
  {
    skip: postgresAbsent || redisAbsent,
  },
  async (t) => {
    const { postgres, options, node } = await world(t)
    await node.stop()
    const job = jobFolder(options)
    const run = (...argv: string[]) => runHere([...argv, '--config', join(job, 'bidweir.yaml')])
    const dir = join(newFolder(), 'copy')
    t.match(await run('backup', dir), {
      code: 0,
      stdout: `${dir}: database, keys, models and configuration\n`,
    })
    t.equal(readFileSync(join(dir, 'configuration', job, 'key'), 'utf8'), `${key}\n`)
    t.ok(existsSync(join(dir, 'configuration', job, 'bidweir.yaml')))
    const refused = await command(['restore', dir, '--config', 'bidweir.yaml'], { cwd: job })
    t.match(refused, { code: 1, stderr: /has users or wins already; --force/ })
    const before = await allRows(postgres.url)
    const forced = await command(['restore', dir, '--force', '--config', 'bidweir.yaml'], {
      cwd: job,
    })
    t.match(forced, { code: 0 }, forced.stderr)
    t.same(await allRows(postgres.url), before)

    const damaged = join(dir, 'database', readdirSync(join(dir, 'database'))[0]!)
    const restore = () =>
      command(['restore', dir, '--force', '--config', 'bidweir.yaml'], { cwd: job })
    writeFileSync(damaged, readFileSync(damaged).subarray(0, 15))
    t.match(await restore(), {
      code: 1,
      stderr: `bidweir: ${damaged} cannot be restored: unexpected end of file\n`,
    })
    rmSync(damaged)
    mkdirSync(damaged)
    t.match(await restore(), { code: 1, stderr: `bidweir: ${damaged} cannot be restored: EISDIR` })
    t.same(await allRows(postgres.url), before, 'all or nothing')

    const without = join(newFolder(), 'copy')
    t.match(await run('backup', without, '--no-database'), {
      code: 0,
      stdout: `${without}: keys, models and configuration, no database\n`,
    })
    t.notOk(existsSync(join(without, 'database')))
  },
)

t.test(
  'large files go in parts, and a failed copy leaves nothing',
  { skip: s3Absent },
  async (t) => {
    const s3 = await startS3()
    t.teardown(() => s3.close())
    Object.assign(process.env, s3.env)
    const { Bucket } = await import('../../../service/backup/bucket.ts')
    const bucket = new Bucket('s3://backups/a/', { partBytes: 5 * 1024 * 1024 })
    t.teardown(() => bucket.close())
    const folder = newFolder()
    mkdirSync(join(folder, 'deep/er'), { recursive: true })
    const large = Buffer.alloc(12 * 1024 * 1024 + 7, 'bidweir')
    writeFileSync(join(folder, 'deep/er/large'), large)
    writeFileSync(join(folder, 'mark'), 'm')
    await bucket.uploadFolder(folder, 'one', 'mark')
    t.same((await s3.list('backups')).sort(), ['a/one/deep/er/large', 'a/one/mark'])
    const to = newFolder()
    await bucket.download('one', to)
    t.ok(readFileSync(join(to, 'deep/er/large')).equals(large))
    await t.rejects(bucket.uploadFolder(folder, 'two', 'no mark'), /no such file/)
    t.same(
      (await s3.list('backups')).filter((name) => name.startsWith('a/two')),
      [],
    )
    await bucket.remove(await bucket.list())
    t.same(await s3.list('backups'), [])
    t.throws(() => new Bucket('s3://Wrong_Name'), /is not of the form s3:\/\/BUCKET\/PREFIX/)
  },
)
