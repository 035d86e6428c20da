/** The figures of the console over several nodes: the same sums at whichever node answers, or one node alone. */
import t from 'tap'
import type { LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { publishSooner, serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

publishSooner()

t.test('two nodes on one database', { skip: postgresAbsent }, async (t) => {
  const [database, supplier] = [await startPostgres(), await echoSupplier()]
  const secret = Buffer.alloc(32, 5).toString('base64url')
  const options = {
    suppliers: ['id: acme, name: Acme, account: a, opd: {enabled: true, holdout: .5}'],
    endpoint: supplier.url,
    more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${secret}}]}`,
  }
  const one = await serveNode(options)
  const other = await serveNode(options)
  other.login = one.login
  t.teardown(async () => {
    await other.bidweir.stop()
    await Promise.all([supplier.close(), database.close()])
  })
  const authorization = `Bearer ${await one.login()}`
  const live = async ({ admin }: typeof one, query = '') =>
    (await (
      await fetch(`${admin}/api/svc/live/${query}`, { headers: { authorization } })
    ).json()) as LiveSnapshot
  const answers = ({ integrations }: LiveSnapshot) => integrations[0]?.requests['answer'] ?? 0

  for (let index = 0; index < 8; index++) {
    const node = index < 3 ? one : other
    const { id, svcOpd, out } = await node.bid({ id: `b${index}`, price: 2 })
    // each win is reported to the node that did not decide it
    const receiver = index < 3 ? other : one
    const { http } = await receiver.notify({ bid_id: id, price: out, svc_opd: svcOpd })
    t.equal(http, 200)
  }
  for (const node of [one, other])
    await until(async () => {
      const now = await live(node)
      return now.nodes.length === 2 && answers(now) === 8
    })
  // each node adds its bids to the sums of the last days a little later
  const modes = async (node: typeof one) =>
    JSON.stringify((await live(node)).integrations[0]!.modes)
  await until(async () => (await modes(one)) === (await modes(other)))
  const [here, there] = [await live(one), await live(other)]
  for (const snapshot of [here, there]) {
    const [mode] = snapshot.integrations[0]!.modes
    t.match(mode, { bids: 8, wins: 8 })
    t.equal(snapshot.integrations[0]!.notices['attributed'], 8)
    t.equal(snapshot.scope, 'all nodes')
  }
  t.not(here.node, there.node)
  t.same(here.integrations[0]!.modes, there.integrations[0]!.modes, 'no jump behind a balancer')
  for (const [node, bids] of [
    [here.node, 3],
    [there.node, 5],
  ] as const) {
    const alone = await live(one, `?node=${node}`)
    t.equal(alone.scope, 'one node')
    t.equal(answers(alone), bids, 'one node on demand')
    t.equal(alone.nodes.length, 2, 'all can be chosen')
  }
  const absent = await fetch(`${one.admin}/api/svc/live/?node=gone`, { headers: { authorization } })
  t.equal(absent.status, 404)
  await one.bidweir.stop()
  await until(async () => (await live(other)).nodes.length === 1)
  t.equal(answers(await live(other)), 5, 'a node that ended is not counted')
})
