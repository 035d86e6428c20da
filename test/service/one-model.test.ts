/** Three whole nodes on one Redis, or one PostgreSQL: the same bid has the same chance of winning (CONTRACT 13). */
import t, { type Test } from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { type ServedNode as Node, serveNode } from '../support/served-node.ts'
import { echoSupplier, startNode } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')

const path = '/api/svc/curve/?ssp=acme&publisher=p1&domain=d1.example&in=2'

/** `store` in YAML; `login`: by which node tokens are made for a node. */
async function agree(t: Test, store: string, login: (node: Node, first: Node) => Node) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const start = async (startOne: (options: Parameters<typeof serveNode>[0]) => Promise<Node>) => {
    const node = await startOne({
      endpoint: supplier.url,
      more: `store: ${store}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
    })
    t.teardown(() => node.stop())
    return node
  }
  // One of them has a process of its own.
  const nodes = [await start(startNode), await start(serveNode), await start(serveNode)] as const
  const chances = async (node: Node) => {
    const authorization = `Bearer ${await login(node, nodes[0]).login()}`
    const answer = await fetch(`${node.admin}${path}`, { headers: { authorization } })
    const { points } = (await answer.json()) as { points: { win: number }[] }
    return points.map(({ win }) => win)
  }
  const spread = async (of: readonly Node[] = nodes) => {
    const all = await Promise.all(of.map(chances))
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
    const at = n % 10 < 8 ? 0 : n % 3
    const asked = { id: `b${n}`, auction: `a${n}`, price: 2, request: { site } }
    const bid = await bidAt(nodes[at]!, asked)
    if (n % 4 !== 0)
      await nodes[(at + 1) % 3]!.notify({ bid_id: bid.id, svc_opd: bid.svcOpd, price: bid.out })
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
  // A node is ready with the model of the others; only the shared PostgreSQL has its user.
  if (login(nodes[2], nodes[0]) !== nodes[0]) return
  const late = await start(serveNode)
  await until(async () => (await fetch(`${late.admin}/readyz`)).status === 200)
  t.ok((await spread([nodes[0], late])) <= 0.03, 'one that joins')
}

t.test('on one Redis, with a database each', { skip: redisAbsent }, async (t) => {
  const redis = await startRedis()
  t.teardown(() => redis.stop())
  await agree(t, `{redis: "${redis.url}"}`, (node) => node)
})

t.test('on one PostgreSQL, without Redis', { skip: postgresAbsent }, async (t) => {
  const postgres = await startPostgres()
  t.teardown(() => postgres.close())
  await agree(t, `{database: "${postgres.url}"}`, (_node, first) => first)
})
