/** What OPD took off on a day is summed over all nodes and survives them, on both databases. */
import { createTakenOff } from '../../../admin/store/taken-off.ts'
import { DayReductions } from '../../../opd/pricing/day-reductions.ts'
import { onBoth, recordingLog, silent, storeAt } from '../../support/store.ts'

const day = 86_400_000
const noon = 20_000.5 * day

onBoth(async (t, database) => {
  const clock = { now: noon }
  const now = () => clock.now
  const store = await storeAt(t, database)
  const node = () => {
    const reductions = new DayReductions()
    const takenOff = createTakenOff(store, reductions, { now, log: silent })
    t.teardown(() => takenOff.close())
    return { reductions, takenOff, of: (ssp: string) => reductions.of(ssp, clock.now) }
  }
  const [one, other] = [node(), node()]
  one.reductions.add('acme', noon, 1000)
  t.equal(one.of('acme'), 1, 'its own wins count at once')
  await one.takenOff.flush()
  other.reductions.add('acme', noon, 2000)
  other.reductions.add('bolt', noon, 500)
  await other.takenOff.flush()
  t.same([other.of('acme'), other.of('bolt')], [3, 0.5])
  await one.takenOff.flush()
  await one.takenOff.flush()
  t.same([one.of('acme'), one.of('bolt')], [3, 0.5], 'stored once, read by all')

  const flushing = one.takenOff.flush()
  one.reductions.add('acme', noon, 250)
  await flushing
  t.equal(one.of('acme'), 3.25, 'what was counted meanwhile is kept')

  one.reductions.add('acme', noon, 750)
  clock.now += day
  t.equal(one.of('acme'), 0, 'another day')
  one.reductions.add('acme', clock.now, 100)
  await one.takenOff.flush()
  const late = node()
  await late.takenOff.flush()
  t.equal(late.of('acme'), 0.1, 'a node that starts on that day')
  t.equal(late.of('bolt'), 0)
  const rows = await store.db.selectFrom('taken_off').selectAll().orderBy('day').execute()
  t.same(
    rows.map(({ day, supplier, amount }) => [day, supplier, amount]).sort(),
    [
      [20_000, 'acme', 4],
      [20_000, 'bolt', 0.5],
      [20_001, 'acme', 0.1],
    ],
    'the rest of the day before is stored, too',
  )
  clock.now += 8 * day
  await node().takenOff.flush()
  t.equal((await store.db.selectFrom('taken_off').selectAll().execute()).length, 0, 'old days go')
})

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database)
  const reductions = new DayReductions()
  const takenOff = createTakenOff(store, reductions, { now: () => noon, log })
  await store.db.schema.alterTable('taken_off').renameTo('away').execute()
  reductions.add('acme', noon, 1000)
  await t.rejects(takenOff.flush())
  t.equal(reductions.of('acme', noon), 1, 'counted while the store is lost')
  await store.db.schema.alterTable('away').renameTo('taken_off').execute()
  await takenOff.flush()
  t.equal(reductions.of('acme', noon), 1)
  const rows = await store.db.selectFrom('taken_off').select('amount').execute()
  t.same(rows, [{ amount: 1 }], 'and stored once it is back')
  await takenOff.close()
  t.same(warnings, [])
})
