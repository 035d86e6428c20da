/** The sums of kept wins: those of the store, read in slices, and those of before while the store is lost. */
import t from 'tap'
import { comparedDays, KeptSums } from '../../../admin/fleet/kept-sums.ts'
import { addArmDays, armDaysOfBids } from '../../../admin/store/arm-days.ts'
import { newFolder } from '../../support/process.ts'
import { recordingLog, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

t.test('20,000 suppliers that have bids', async (t) => {
  const { warnings, log } = recordingLog()
  const { db } = await storeAt(t, { url: `sqlite:${newFolder()}/kept.db` })
  const row = { hour: Date.now(), mode: 'revenue', arm: 'treated', via: 'proxy' }
  const sums = { publisher: '', domain: '', bids: 1, in_sum: 2, out_sum: 1 }
  const rows = Array.from({ length: 20_000 }, (_, n) => ({ ...row, ...sums, supplier: `s${n}` }))
  await addArmDays(db, armDaysOfBids(rows))
  const rules = () => ({ notices: {}, rates: { USD: 1 }, base: 'USD' })
  const kept = new KeptSums({
    db,
    days: comparedDays,
    flush: async () => {},
    rules,
    now: Date.now,
    log,
  })
  let turns = 0
  let immediate: NodeJS.Immediate
  const turn = () => {
    turns++
    immediate = setImmediate(turn)
  }
  immediate = setImmediate(turn)
  await kept.read()
  clearImmediate(immediate)
  t.match(kept.armsOf('s19999', 'revenue'), { optimised: { bids: 1 }, holdout: { bids: 0 } })
  t.equal(kept.armsOf('s20000', 'revenue'), null)
  t.ok(turns > 1, `${turns} turns of the event loop meanwhile`)

  await db.schema.alterTable('arm_days').renameTo('away').execute()
  await until(async () => {
    await kept.read()
    return warnings.length > 0
  })
  t.same(warnings[0], 'the sums of kept wins could not be read')
  t.match(kept.armsOf('s19999', 'revenue'), { optimised: { bids: 1 } }, 'what was read stays')
})
