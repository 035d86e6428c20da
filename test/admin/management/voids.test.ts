/** A voided win is in no sum any more; a repeated notice of it is still a duplicate. */
import { readRows } from '../../../admin/reports/rows.ts'
import { hour, hourOf } from '../../../admin/store/hour.ts'
import { Retention } from '../../../admin/store/retention.ts'
import { entry, unplaced } from '../../support/ledger-entry.ts'
import { serve } from '../../support/management.ts'
import { onBoth, silent } from '../../support/store.ts'

const readings = { notices: { acme: 'both' }, rates: { USD: 1 }, base: 'USD' } as const
const now = Date.now()

onBoth(async (t, database) => {
  const { call, store } = await serve(t, database)
  const { ledger } = store
  const report = async (from: number, to: number) => {
    const scope = { suppliers: ['acme'], all: false, from, to, by: 'ssp' as const }
    const [row] = await readRows(store, scope, readings)
    const { wins = 0, voided = 0, unattributed = 0, margin = '0', cleared = '0' } = row ?? {}
    return { wins, voided, unattributed, margin, cleared }
  }
  const today = () => report(now - hour, now + hour)
  const voids = (decision: string, who = 'acme') =>
    call('POST', `/api/svc/impressions/${decision}/void`, undefined, who)
  const audited = async () =>
    (await call('GET', '/api/svc/audit/')).body.filter(
      ({ action }: { action: string }) => action === 'void',
    )
  const same = { since: now - hour, supplier: 'acme' }
  const billing = { event: 'billing', bid_id: 'bid-d1', at: now } as const
  await ledger.record(entry('d1', { margin: null, at: now }), same)
  await ledger.record(entry('d1', billing), same)
  await ledger.record(entry('d2', { at: now, margin: null }), same)
  await ledger.record(entry('z1', { supplier: 'zeta', at: now }))
  await ledger.record(entry('refused', { status: 'rejected', margin: null, at: now }))

  t.test('by an operator of its own account', async (t) => {
    const before = { wins: 2, voided: 0, unattributed: 0, margin: '0.25', cleared: '1.85' }
    t.same(await today(), before)
    t.equal((await voids('d1', '')).status, 401)
    t.equal((await voids('d1', 'reader')).status, 403)
    for (const [decision, who] of [
      ['d1', 'other'],
      ['z1', 'acme'],
      ['none', 'root'],
      ['refused', 'root'],
      ['a%00b', 'root'],
    ] as const)
      t.match(await voids(decision, who), { status: 404, body: { code: 'unknown_win' } }, decision)
    t.same(await today(), before)
    t.same(await audited(), [])

    const win = { decision: 'd1', status: 'voided', supplier: 'acme', events: ['billing', 'win'] }
    t.match(await voids('d1'), { status: 200, body: win })
    t.same(await today(), { wins: 1, voided: 1, unattributed: 0, margin: '0', cleared: '0' })
    const trail = await audited()
    t.match(trail, [{ who: 'acme', supplier: 'acme', action: 'void' }])
    t.match(trail[0].before, [
      { decision: 'd1', event: 'billing', status: 'attributed', bid_id: 'bid-d1' },
      { decision: 'd1', event: 'win', status: 'attributed' },
    ])
    t.match(trail[0].after, [{ status: 'voided' }, { status: 'voided' }])
    t.match(await voids('d1'), { status: 200, body: win }, 'again: nothing changes')
    t.equal((await audited()).length, 1)
    t.equal((await voids('z1', 'root')).status, 200)
  })

  t.test('the same win reported again is a duplicate, also under its other event', async (t) => {
    t.equal(await ledger.record(entry('d1', { at: now }), same), 'duplicate')
    const bare = unplaced('bid:bid-d1', { bid_id: 'bid-d1', at: now })
    t.equal(await ledger.record(bare, { ...same, supplier: null }), 'duplicate')
    t.equal((await voids('d2')).status, 200)
    t.equal(await ledger.record(entry('d2', { ...billing, bid_id: 'bid-d2' }), same), 'duplicate')
    t.same(await today(), { wins: 0, voided: 2, unattributed: 0, margin: '0', cleared: '0' })
  })

  t.test('hours that were added up are corrected at once, and added up again', async (t) => {
    const begin = hourOf(now) - 5 * hour
    const time = begin + 1000
    const past = () => report(begin, begin + hour)
    for (const id of ['h1', 'h2', 'h3'])
      await ledger.record(entry(id, { at: time, event: 'billing', publisher: id }))
    await ledger.record(unplaced('bid:late', { bid_id: 'late', supplier: 'acme', at: time }))
    const retention = new Retention(store, {
      keep: () => 400 * 24 * hour,
      now: () => now,
      log: silent,
      pauseMs: 0,
    })
    t.teardown(() => retention.close())
    const sums = async () => {
      const rows = await store.db.selectFrom('ledger_hours').selectAll().execute()
      return rows.filter((row) => Number(row.hour) === begin && Number(row.n) > 0)
    }
    const marks = () => store.db.selectFrom('stale_hours').select('hour').execute()
    await retention.run()
    t.equal((await sums()).length, 4)
    t.same(await past(), { wins: 0, voided: 0, unattributed: 1, margin: '0.75', cleared: '5.55' })

    t.equal((await voids('h1')).status, 200)
    const late = entry('late', { bid_id: 'late', at: now, margin: null, decided_at: time })
    t.equal(await ledger.record(late, { since: time - 5000, supplier: 'acme' }), 'recorded')
    const after = { wins: 0, voided: 1, unattributed: 0, margin: '0.5', cleared: '3.7' }
    t.same(
      (await marks()).map(({ hour }) => Number(hour)),
      [begin],
    )
    t.same(await past(), after)
    await retention.run()
    t.same(await marks(), [])
    t.same((await sums()).map(({ status }) => status).sort(), [
      'attributed',
      'attributed',
      'voided',
    ])
    t.same(await past(), after)
  })

  t.test('a win of an hour that has left the ledger is no longer void', async (t) => {
    await store.db
      .updateTable('rolled')
      .set({ sealed: hourOf(now) })
      .execute()
    t.equal((await voids('h2')).status, 404)
  })
})
