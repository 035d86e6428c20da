/** Nodes with other context keys or another configuration are named in a metric and in the console (CONTRACT 13). */
import t, { type Test } from 'tap'
import type { LiveSnapshot } from '../../admin/fleet/live-schema.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { publishSooner, type ServedNode, serveNode } from '../support/served-node.ts'
import { echoSupplier, sumOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'

publishSooner()

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString('base64url')

async function world(t: Test) {
  const [supplier, database] = await Promise.all([echoSupplier(), startPostgres()])
  t.teardown(() => Promise.all([supplier.close(), database.close()]))
  return async ({ opd = `keys: [{id: 1, secret: ${keyOf(1)}}]`, minFactor = 0.7, more = '' }) => {
    const node = await serveNode({
      endpoint: supplier.url,
      suppliers: [`id: acme, opd: {enabled: true, minFactor: ${minFactor}}`, 'id: zeta'],
      more: `store: {database: "${database.url}"}\nopd: {${opd}}\n${more}`,
    })
    t.teardown(() => node.stop())
    return node
  }
}

const differs = async (node: ServedNode) => {
  const metrics = await node.metrics()
  const value = (what: string) => sumOf(metrics, 'bidweir_node_differs', `what="${what}"`)
  return { keys: value('context_keys'), configuration: value('configuration') }
}

t.test('three nodes', { skip: postgresAbsent }, async (t) => {
  const start = await world(t)
  const first = await start({})
  const second = await start({ more: 'location: elsewhere\nnode: {role: all}' })
  const third = await start({
    opd: `keys: [{id: 1, secret: ${keyOf(2)}}], contextTtl: 47h`,
    minFactor: 0.6,
  })
  const is = (keys: number, configuration: number) => async (node: ServedNode) => {
    const now = await differs(node)
    return now.keys === keys && now.configuration === configuration
  }
  await until(() => is(1, 1)(third), { what: 'the third node is the one that differs' })
  await until(() => is(0, 0)(first), { what: 'the first node is one of two that are equal' })
  await until(() => is(0, 0)(second), { what: 'another location is no difference' })

  t.test('the console of any node names the node and what differs', async (t) => {
    const live = async () => {
      const answer = await first.api('/api/svc/live/')
      const { nodes } = (await answer.json()) as LiveSnapshot
      return nodes.flatMap(({ problems }) => problems.map(({ text }) => text))
    }
    let texts: string[] = []
    await until(async () => {
      texts = await live()
      return texts.length === 2
    })
    t.match(texts[0], /^the context keys differ from those of \S+ \(key 1\)/)
    t.match(
      texts[1],
      /^the configuration differs from that of \S+: opd\.contextTtl, suppliers\.acme$/,
    )
    for (const text of texts) t.notMatch(text, keyOf(2))
  })

  t.test('a node that has ended is no longer compared with', async () => {
    await Promise.all([first.stop(), second.stop()])
    await until(() => is(0, 0)(third))
  })
})

t.test('of two nodes each differs from the other', { skip: postgresAbsent }, async (t) => {
  const start = await world(t)
  const nodes = [await start({}), await start({ more: 'currency: {base: EUR}' })]
  for (const node of nodes)
    await until(async () => {
      const now = await differs(node)
      return now.keys === 0 && now.configuration === 1
    })
  t.pass('no values are those of most nodes')
})
