/**
 * A rolling update and its rollback with the code of the last release, on one PostgreSQL and one Redis: each version
 * takes the bids, wins and switches of the other, before and after the migrations of the new one.
 */
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { lastReleaseAbsent, unpackLastRelease } from '../support/last-release.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { token } from '../support/process.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { type ServedNode as Node, serveNode } from '../support/served-node.ts'
import { echoSupplier, startNode, sumOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

const skip = postgresAbsent || redisAbsent || lastReleaseAbsent

/** The code of the last release in a folder of its own, with the packages of this checkout. */
function lastRelease(): string {
  const folder = unpackLastRelease()
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  return join(folder, 'main.ts')
}

t.test('the last release beside this one', { skip }, async (t) => {
  const [database, redis, supplier] = await Promise.all([
    startPostgres(),
    startRedis(),
    echoSupplier(),
  ])
  const secret = Buffer.alloc(32, 6).toString('base64url')
  const options = {
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
    endpoint: supplier.url,
    auth: 'none' as const,
    more: `store: {database: "${database.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${secret}}]}`,
  }
  const program = lastRelease()
  const running = new Set<Node>()
  const start = async (program?: string) => {
    const node = await (program ? startNode({ ...options, program }) : serveNode(options))
    running.add(node)
    return node
  }
  const stop = async (node: Node) => {
    running.delete(node)
    t.equal(await node.stop(), 0)
  }
  t.teardown(async () => {
    await Promise.all([...running].map((node) => node.stop()))
    await Promise.all([supplier.close(), redis.stop()])
    await database.close()
  })
  const older = await start(program)
  const password = older.bidweir.password!
  /** With a token of its own: a busy machine takes longer than a token lives. */
  const call = async (node: Node, path: string, body?: object) => {
    const access = await token(node.bidweir, 'admin', password)
    return fetch(`${node.admin}${path}`, {
      headers: { authorization: `Bearer ${access}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'PUT', body: JSON.stringify(body) }),
    })
  }

  let wins = 0
  /** A bid at one node, whose win is reported to another, and once more to the first. */
  async function exchange(t: Test, from: Node, to: Node, what: string) {
    const id = `bid-${wins++}`
    const bid = await from.bid({ id, price: 2 })
    const notice = { ssp: 'acme', bid_id: id, price: bid.out, svc_opd: bid.svcOpd }
    t.match(await to.notify(notice), { http: 200, body: { status: 'attributed' } }, what)
    t.match(await from.notify(notice), { http: 200, body: { status: 'duplicate' } }, what)
    const bare = `bid-${wins++}`
    const { out } = await from.bid({ id: bare, price: 2 })
    await until(() => redis.holds(bare), { what: `${bare} in the shared bid log` })
    const found = await to.notify({ ssp: 'acme', bid_id: bare, price: out })
    t.match(found, { http: 200, body: { status: 'attributed' } }, `${what}, by the bid log`)
  }
  const winsOf = async (node: Node) => {
    const rows = (await (await call(node, '/api/svc/reports/margin')).json()) as { wins: number }[]
    return rows.reduce((sum, row) => sum + row.wins, 0)
  }
  const agree = async (t: Test, ...nodes: Node[]) => {
    for (const node of nodes) t.equal(await winsOf(node), wins, 'every win is in the report')
  }

  const newer = await start()
  t.test('both versions run, after the migrations of the new one', async (t) => {
    await exchange(t, older, newer, 'old to new')
    await exchange(t, newer, older, 'new to old')
    await exchange(t, older, older, 'old to old')
    await exchange(t, newer, newer, 'new to new')
    await agree(t, older, newer)
    for (const [at, other] of [
      [older, newer],
      [newer, older],
    ] as const) {
      const hold = (on: boolean) => call(at, '/api/svc/opd/acme/', { hold: on })
      t.equal((await hold(true)).status, 200)
      let count = 0
      const bidsOnHold = async () =>
        sumOf(await other.metrics(), 'bidweir_bids_total', 'reason="hold"')
      // Not by the price: the model, too, may keep it.
      const held = async () => {
        const before = await bidsOnHold()
        await other.bid({ id: `held-${count++}`, price: 2 })
        return (await bidsOnHold()) > before
      }
      await until(held, { what: 'a hold of the other version' })
      t.equal((await hold(false)).status, 200)
      await until(async () => !(await held()), { what: 'its release' })
    }
  })

  t.test('the old version starts again on the new schema, after a rollback', async (t) => {
    await stop(older)
    const again = await start(program)
    await exchange(t, again, newer, 'old to new')
    await stop(newer)
    await exchange(t, again, again, 'old alone')
    const forward = await start()
    await exchange(t, forward, again, 'new to old')
    await agree(t, again, forward)
  })
})
