/** Three whole nodes with a database each and one Redis: the same bid has the same chance of winning (CONTRACT 13). */
import t from 'tap'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { echoSupplier, type Node, startNode } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')

t.test('three nodes have one model', { skip: redisAbsent }, async (t) => {
  const [supplier, redis] = await Promise.all([echoSupplier(), startRedis()])
  const start = () =>
    startNode({
      endpoint: supplier.url,
      more: `store: {redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}'],
    })
  const nodes = await Promise.all([start(), start(), start()])
  t.teardown(async () => {
    await Promise.all(nodes.map((node) => node.stop()))
    await Promise.all([supplier.close(), redis.stop()])
  })
  const chances = async (node: Node) => {
    const answer = await node.api('/api/svc/curve/?ssp=acme&publisher=p1&domain=d1.example&in=2')
    const { points } = (await answer.json()) as { points: { win: number }[] }
    return points.map(({ win }) => win)
  }
  const spread = async () => {
    const [one = [], two = [], three = []] = await Promise.all(nodes.map(chances))
    return Math.max(
      ...one.map((win, n) => {
        const all = [win, two[n]!, three[n]!]
        return Math.max(...all) - Math.min(...all)
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
})
