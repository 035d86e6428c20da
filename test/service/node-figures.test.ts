/** What a node tells of thousands of suppliers is collected in slices: bid traffic goes on between them. */
import t from 'tap'
import { ImpressionCounters } from '../../admin/impressions/counters.ts'
import { EngineStats } from '../../opd/pricing/stats.ts'
import { NodeCountsReader } from '../../service/node-counts.ts'
import { figuresOf } from '../../service/node-figures.ts'
import { startProxy } from '../support/proxy.ts'

t.test('the figures of 20,000 suppliers', async (t) => {
  const { proxy, close } = await startProxy({})
  t.teardown(close)
  const stats = new EngineStats()
  for (let n = 0; n < 20_000; n++)
    stats.supplierStats(`s${n}`).modes.revenue.countPriced('treated', 1 + (n % 7), 1)
  const figures = new NodeCountsReader({
    ...{ proxy, stats, location: 'here', now: Date.now, others: () => [], problems: () => [] },
    ...{ node: 'n', attributionWindow: () => 1000, takesBids: () => true },
    counters: new ImpressionCounters(() => ({ publishers: 1, domains: 1 })),
  })
  t.teardown(() => figures.close())
  let turns = 0
  const turn = () => {
    turns++
    immediate = setImmediate(turn)
  }
  let immediate = setImmediate(turn)
  const { suppliers, node } = await figuresOf(await figures.read())
  clearImmediate(immediate)
  t.equal(node, 'n')
  t.equal(Object.keys(suppliers).length, 20_000)
  t.equal(suppliers['s3']?.modes.revenue?.bids, 1)
  t.ok(turns > 1, `${turns} turns of the event loop meanwhile`)
})
