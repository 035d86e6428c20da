/** What OPD took off on a day is summed over all nodes and survives them, on both databases. */
import { type ArmDay, addArmDays, armDayOfWin, DayCaps } from '../../../admin/store/arm-days.ts'
import { DayReductions } from '../../../opd/pricing/day-reductions.ts'
import { entry } from '../../support/ledger-entry.ts'
import { onBoth, recordingLog, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const day = 86_400_000
const noon = 20_000.5 * day
const rate = (currency: string) => (currency === 'USD' ? 1 : currency === 'EUR' ? 0.5 : null)

/** A win of 3000 of which `reduced` was taken off, CPM. */
const winOf = (reduced: number, time: number, over: Parameters<typeof entry>[1] = {}): ArmDay =>
  armDayOfWin(entry('d', { at: time, in_ba: '3000', out_ba: String(3000 - reduced), ...over }))!

onBoth(async (t, database) => {
  const clock = { now: noon }
  const now = () => clock.now
  const { db } = await storeAt(t, database)
  const node = () => {
    const reductions = new DayReductions()
    const caps = new DayCaps({ db, reductions, rate, now, log: silent })
    t.teardown(() => caps.close())
    const store = async (...wins: ArmDay[]) => {
      await addArmDays(db, wins)
      caps.stored(wins)
    }
    return { caps, store, amountOf: (ssp: string) => reductions.amountOf(ssp, clock.now) }
  }
  const [one, other] = [node(), node()]
  const first = winOf(1000, noon)
  one.caps.counted([first])
  t.equal(one.amountOf('acme'), 1, 'wins of this node count at once')
  await one.caps.read()
  t.equal(one.amountOf('acme'), 1, 'also before they are stored')
  await one.store(first)
  t.equal(one.amountOf('acme'), 1, 'and once')
  const more = [winOf(1000, noon, { currency: 'EUR' }), winOf(500, noon, { supplier: 'bolt' })]
  other.caps.counted(more)
  await other.store(...more)
  await other.caps.read()
  t.same([other.amountOf('acme'), other.amountOf('bolt')], [3, 0.5])
  await one.caps.read()
  t.same([one.amountOf('acme'), one.amountOf('bolt')], [3, 0.5], 'the wins of the other node')

  const meanwhile = winOf(250, noon)
  one.caps.counted([meanwhile])
  const reading = one.caps.read()
  await one.store(meanwhile)
  await reading
  t.equal(one.amountOf('acme'), 3.25, 'a win that is stored while the sums are read counts once')

  clock.now += day
  t.equal(one.amountOf('acme'), 0, 'another day')
  one.caps.counted([winOf(100, clock.now)])
  t.equal(one.amountOf('acme'), 0.1)
  const late = node()
  await late.caps.read()
  t.equal(late.amountOf('acme'), 0, 'a node that starts on that day')
})

onBoth(async (t, database) => {
  const { db } = await storeAt(t, database)
  const reductions = new DayReductions()
  const caps = new DayCaps({ db, reductions, rate, now: () => noon, log: silent })
  t.teardown(() => caps.close())
  // As an import of notices from files records them: `at` is the time in the file.
  const wins = [
    winOf(1000, noon - day, { decided_at: noon - day - 60_000 }),
    winOf(500, noon, { decided_at: noon - day }),
  ]
  t.same(
    wins.map((win) => win.day),
    [19_999, 20_000],
  )
  caps.counted(wins)
  t.equal(reductions.amountOf('acme', noon), 0.5)
  await addArmDays(db, wins)
  caps.stored(wins)
  await caps.read()
  t.equal(reductions.amountOf('acme', noon), 0.5, 'a win counts on the day that its notice names')
})

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const { db } = await storeAt(t, database)
  const reductions = new DayReductions()
  const caps = new DayCaps({ db, reductions, rate, now: () => noon, log })
  t.teardown(() => caps.close())
  await db.schema.alterTable('arm_days').renameTo('away').execute()
  caps.counted([winOf(1000, noon)])
  await t.rejects(caps.read())
  t.equal(reductions.amountOf('acme', noon), 1, 'counted while the store is lost')
  await until(() => warnings.length > 0)
  t.same(warnings, ['the price reductions of the day were not read'], 'which is logged once')
})
