/** Whole nodes on one PostgreSQL and one Redis: the same bid has the same chance of winning (CONTRACT 13). */
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { type ServedNode as Node, serveNode } from '../support/served-node.ts'
import { echoSupplier, startNode } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')

const path = '/api/svc/curve/?ssp=acme&publisher=p1&domain=d1.example&in=2'

t.test('nodes agree', { skip: postgresAbsent || redisAbsent }, async (t) => {
  const [supplier, redis, postgres] = await Promise.all([
    echoSupplier(),
    startRedis(),
    startPostgres(),
  ])
  t.teardown(() => Promise.all([supplier.close(), redis.stop(), postgres.close()]))
  const start = async (startOne: (options: Parameters<typeof serveNode>[0]) => Promise<Node>) => {
    const node = await startOne({
      endpoint: supplier.url,
      more: `store: {database: "${postgres.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
    })
    t.teardown(() => node.stop())
    return node
  }
  // One of them has a process of its own.
  const nodes = [await start(startNode), await start(serveNode), await start(serveNode)] as const
  const chances = async (node: Node) => {
    const authorization = `Bearer ${await nodes[0].login()}`
    const answer = await fetch(`${node.admin}${path}`, { headers: { authorization } })
    const { points } = (await answer.json()) as { points: { win: number }[] }
    return points.map(({ win }) => win)
  }
  const spread = async (list: readonly Node[] = nodes) => {
    const all = await Promise.all(list.map(chances))
    return Math.max(
      ...all[0]!.map((_win, n) => {
        const same = all.map((wins) => wins[n]!)
        return Math.max(...same) - Math.min(...same)
      }),
    )
  }
  /** On a busy machine a bid may be refused. */
  async function bidAt(node: Node, asked: Parameters<Node['bid']>[0]) {
    let bid: Awaited<ReturnType<Node['bid']>> | null = null
    await until(async () => {
      bid = await node.bid(asked).catch(() => null)
      return bid !== null
    })
    return bid!
  }
  const before = await chances(nodes[0])
  const site = { domain: 'd1.example', publisher: { id: 'p1' } }
  // Most bids at the first node; each notice at another one than its bid.
  for (let n = 0; n < 80; n++) {
    const index = n % 10 < 8 ? 0 : n % 3
    const asked = { id: `b${n}`, auction: `a${n}`, price: 2, request: { site } }
    const bid = await bidAt(nodes[index]!, asked)
    if (n % 4 !== 0)
      await nodes[(index + 1) % 3]!.notify({ bid_id: bid.id, svc_opd: bid.svcOpd, price: bid.out })
  }
  const learned = async () => {
    const after = await chances(nodes[0])
    return after.some((win, n) => Math.abs(win - before[n]!) > 0.02)
  }
  await until(learned, { what: 'a node that has learned' })
  await until(async () => (await spread()) <= 0.03, { what: 'three nodes that agree' })
  const adopted = async (node: Node) => {
    const text = await (await fetch(`${node.admin}/metrics`)).text()
    return Number(/bidweir_model_shared_total\{result="curve_adopted"\} (\d+)/.exec(text)?.[1])
  }
  const total = async () => (await Promise.all(nodes.map(adopted))).reduce((sum, n) => sum + n, 0)
  await until(async () => (await total()) > 0, { what: 'a curve that was adopted' })
  await until(async () => (await spread()) <= 0.03, { what: 'three nodes that agree' })
  // A node is ready with the model of the others.
  const late = await start(serveNode)
  await until(async () => (await fetch(`${late.admin}/readyz`)).status === 200)
  // CONTRACT 13 gives it ten seconds; the other nodes may have a newer curve at this moment.
  await until(async () => (await spread([nodes[0], late])) <= 0.03, { what: 'one that joins' })
  t.ok((await spread([nodes[0], late])) <= 0.03)
})
