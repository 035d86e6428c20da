/** The sums of thousands of suppliers are added up in slices: bid traffic goes on between them. */
import t from 'tap'
import { createKeptSums } from '../../../admin/fleet/kept-sums.ts'
import { openStore } from '../../../admin/store/index.ts'
import { EngineStats } from '../../../opd/pricing/stats.ts'
import { noLog } from '../../support/engine.ts'
import { newFolder } from '../../support/process.ts'

t.test('20,000 suppliers that have bids', async (t) => {
  const store = await openStore(`sqlite:${newFolder()}/kept.db`, { now: Date.now, log: noLog })
  t.teardown(() => store.close())
  const stats = new EngineStats()
  for (let n = 0; n < 20_000; n++) stats.of(`s${n}`).modes.revenue.priced('treated', 2, 1)
  const kept = createKeptSums({ store, stats, now: Date.now, log: noLog })
  let turns = 0
  let immediate: NodeJS.Immediate
  const turn = () => {
    turns++
    immediate = setImmediate(turn)
  }
  // The store is read once in five seconds: the second time, only what was counted is added up.
  await kept.read()
  immediate = setImmediate(turn)
  const of = await kept.read()
  clearImmediate(immediate)
  t.match(of('s19999', 'revenue'), { optimised: { bids: 1, in: 2 }, holdout: { bids: 0 } })
  t.equal(of('s20000', 'revenue'), null)
  t.ok(turns > 1, `${turns} turns of the event loop meanwhile`)
})
