/** Wins of bids whose lower price the exchange may not have applied (CONTRACT 15). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { AgentClient, callOf } from '../../support/agent.ts'
import { newFolder } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const supplier = await echoSupplier()
const folder = newFolder()
const log = join(folder, 'decisions.ndjson')
const opd = 'opd: {enabled: true, holdout: 0, explore: 0'
const node = await serveNode({
  endpoint: supplier.url,
  folder,
  suppliers: [
    `id: acme, clearing: {maxOver: 1}, ${opd}}`,
    `id: fees, clearing: {maxOver: 1}, ${opd}, clientFee: 0.1}`,
    `id: goal, ${opd}, mode: margin}`,
  ],
  more: `agent: {listen: "127.0.0.1:0", timeout: 60s}\nopd: {decisionLog: {path: ${log}}}`,
})
const client = new AgentClient(node.bidweir.agentPort!)
t.teardown(async () => {
  client.close()
  await node.stop()
  await supplier.close()
})
const authorization = `Bearer ${await node.login()}`

/** Lets an agent call price a bid of 2.4. Its new price. */
async function priced(id: string, ssp = 'acme'): Promise<number> {
  const { mutations } = await client.call(
    callOf(
      { originator: { id: ssp }, bid_request: { ...callOf().bid_request, id: `auction of ${id}` } },
      { id },
    ),
  )
  return mutations[0]!.adjust_bid.price
}
const notify = (bid_id: string, price: number | string) =>
  node.notify({ bid_id, price: String(price) }, { authorization })

const rowOf = async (ssp: string) => (await node.report(`discrepancy?ssp=${ssp}`))[0]
const metrics = async () => (await fetch(`${node.admin}/metrics`)).text()

t.test('a win at the price that was sent is applied and has its margin', async (t) => {
  const price = await priced('one')
  t.same((await notify('one', price)).body, { status: 'attributed', by: 'bid_log' })
  t.match(await rowOf('acme'), { wins: 1, lowered: 1, unapplied: 0 })
  t.match(await metrics(), /bidweir_agent_wins_total\{ssp="acme",applied="true"\} 1\n/)
})

t.test("a win at the bid's own price is not applied: no fault, and no margin", async (t) => {
  const [before] = await node.report('margin?ssp=acme')
  await priced('two')
  // maxOver is 1, so this price would be refused if it were compared with the price sent.
  t.same((await notify('two', '2.4')).body, { status: 'attributed', by: 'bid_log' })
  t.match(await rowOf('acme'), { wins: 2, lowered: 2, unapplied: 1, over: 0, rejected: 0 })
  const [after] = await node.report('margin?ssp=acme')
  t.equal(after?.['margin'], before?.['margin'])
  t.equal(Number(after?.['cleared']) > Number(before?.['cleared']), true)
  t.match(await metrics(), /bidweir_agent_wins_total\{ssp="acme",applied="false"\} 1\n/)
  await until(() => /"applied":false/.test(readFileSync(log, 'utf8')))
})

t.test("a win above the bid's own price is refused", async (t) => {
  await priced('three')
  t.equal((await notify('three', '2.41')).http, 422)
})

t.test('the own price of a bid is its price before the client fee', async (t) => {
  await priced('four', 'fees')
  t.equal((await notify('four', '2.4')).http, 200)
  t.match(await rowOf('fees'), { unapplied: 1, over: 0 })
  t.match((await node.report('margin?ssp=fees'))[0], { margin: '0' })
})

t.test('a bid of the proxy that clears above its price is a fault as before', async (t) => {
  const [bid] = await node.bids([{ id: 'of-proxy', price: 2.4 }])
  t.not(bid?.out, '2.4')
  t.equal((await notify('of-proxy', '2.4')).http, 422)
})

t.test(
  'in margin mode the win of an agent call needs no context, because it has none',
  async (t) => {
    const price = await priced('five', 'goal')
    t.same((await notify('five', price)).body, { status: 'attributed', by: 'bid_log' })
    const [bid] = await node.bids([{ id: 'of-goal', price: 2.4, ssp: 'goal' }])
    t.equal((await notify('of-goal', bid!.out)).http, 400)
  },
)

t.test('reports show agent calls apart', async (t) => {
  const rows = await node.report('wins?ssp=acme&by=via')
  t.match(
    rows.map(({ key, wins }) => ({ key, wins })),
    [
      { key: 'agent', wins: 2 },
      { key: 'proxy', wins: 0 },
    ],
  )
  t.match(await node.report('wins?by=ssp&via=agent'), [
    { key: 'acme', decided: 3 },
    { key: 'fees', decided: 1 },
    { key: 'goal', decided: 1 },
  ])
})

t.test('a supplier with agent calls only is in use', async (t) => {
  const live = (await (await node.api('/api/svc/live/')).json()) as {
    integrations: { ssp: string; total: number; health: object }[]
  }
  t.match(
    live.integrations.find(({ ssp }) => ssp === 'fees'),
    { total: 0, health: { level: 'ok', reasons: [] } },
  )
})
