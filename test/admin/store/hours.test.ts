/** Reports are the same before and after hours are summed, and after their rows are deleted; on both databases. */
import { randomBytes } from 'node:crypto'
import { readRows } from '../../../admin/reports/rows.ts'
import { Retention } from '../../../admin/store/retention.ts'
import { createDuplicateCounts } from '../../../admin/store/rollup.ts'
import { type LedgerRow, ledgerTable } from '../../../admin/store/tables.ts'
import { difference } from '../../../opd/base/decimal.ts'
import { entry } from '../../support/ledger-entry.ts'
import { onBoth, silent, storeAt } from '../../support/store.ts'

const hour = 3_600_000
const day = 24 * hour
const start = Math.floor(1_790_000_000_000 / day) * day
const readings = {
  notices: { both: 'both', bill: 'billing' },
  rates: { USD: 1, EUR: 0.9 },
  base: 'USD',
} as const
const suppliers = ['acme', 'both', 'bill']
const nowhere = { country: '', device: '', format: '', size: '', deal: '' }

/** Deterministic, so that a failure can be seen again. */
function dice(seed: number) {
  let state = seed
  return (sides: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x7fffffff) * sides * 0.999999)
  }
}

function notices(count: number): LedgerRow[] {
  const roll = dice(7)
  const pick = <T>(...values: T[]) => values[roll(values.length)]!
  return Array.from({ length: count }, (_each, n): LedgerRow => {
    const time = start + roll(2 * day)
    const supplier = pick<string | null>(...suppliers, null)
    const status =
      supplier === null
        ? 'unattributed'
        : pick<LedgerRow['status']>(
            'attributed',
            'attributed',
            'attributed',
            'unattributed',
            'rejected',
          )
    const inBa = `${roll(9)}.${roll(1_000_000)}`
    const cleared = `${roll(9)}.${roll(1_000_000_000)}`
    const won = status === 'attributed'
    return entry(`d${n}`, {
      event: pick('win', 'win', 'billing'),
      status,
      supplier,
      arm: won ? pick('treated', 'holdout', 'explored', 'test') : null,
      publisher: won ? pick('p1', 'p2', null) : null,
      domain: won ? pick('a.example', null) : null,
      seat: won ? (['s1', 's2'][n % 3] ?? null) : null,
      mode: won ? 'revenue' : null,
      in_ba: won ? inBa : null,
      out_ba: won ? inBa : null,
      cleared,
      currency: won ? pick('USD', 'EUR', 'XAU') : null,
      margin: won && roll(4) > 0 ? difference(inBa, cleared) : null,
      late: Number(roll(9) === 0),
      over: Number(roll(9) === 0),
      at: time,
    })
  }).map((row, n) => (row.supplier === 'acme' && row.event === 'win' ? placed(row, n) : row))
}

/** Of a supplier whose wins are all of one event: a few of several events are `late` and `over` by which rows are read together. */
const placed = (row: LedgerRow, n: number): LedgerRow =>
  row.status === 'attributed'
    ? { ...row, country: ['DEU', 'FRA'][n % 3] ?? null, deal: n % 5 === 0 ? 'deal-7' : null }
    : row

onBoth(async (t, database) => {
  let now = start + 2 * day
  const store = await storeAt(t, database, { now: () => now })
  let keep = 400 * day
  const options = { keep: () => keep, now: () => now, log: silent, pauseMs: 0 }
  const retention = new Retention(store, options)
  const duplicates = createDuplicateCounts(store, silent)
  t.teardown(async () => {
    retention.close()
    await duplicates.close()
  })
  await Promise.all(notices(1200).map((notice) => store.ledger.record(notice)))
  for (const [n, publisher] of ['p1', 'p1', 'p2'].entries())
    duplicates.count({
      supplier: 'acme',
      event: 'win',
      mode: 'revenue',
      via: 'proxy',
      publisher,
      domain: '',
      seat: n === 0 ? '' : 's1',
      facets: n === 0 ? undefined : { ...nowhere, country: 'DEU' },
      at: start + n * hour,
    })
  await duplicates.flush()

  const ranges = {
    whole: [start, start + 2 * day],
    'broken hours': [start + 10 * hour + 1234, start + 30 * hour + 5678],
    'within an hour': [start + 5 * hour + 1000, start + 5 * hour + 900_000],
    'to now and beyond': [start + 40 * hour + 1, start + 3 * day],
  } as const
  const reports = ['ssp', 'seat', 'publisher', 'domain', 'hour', 'day', 'country', 'deal'] as const
  const all = async (names = Object.keys(ranges) as (keyof typeof ranges)[]) => {
    const found: Record<string, unknown> = {}
    for (const name of names)
      for (const by of reports)
        for (const everyone of [true, false]) {
          const [from, to] = ranges[name]
          const seat = by === 'domain' ? 's1' : undefined
          const country = by === 'day' ? 'DEU' : undefined
          const scope = { suppliers, all: everyone, from, to, by, seat, country }
          found[`${name} by ${by}${everyone ? '' : ', own'}`] = (
            await readRows(store, scope, readings)
          ).map(rounded)
        }
    return found
  }
  const rolled = () => store.db.selectFrom('rolled').selectAll().executeTakeFirstOrThrow()
  const before = await all()
  t.equal((before['whole by ssp, own'] as { duplicate: number }[])[0]!.duplicate, 3)

  t.test('reports are the same before and after hours are summed', async (t) => {
    t.equal(await retention.run(), 0)
    t.equal(
      Number((await rolled()).until),
      now - hour,
      'the last one may still have notices under way',
    )
    t.same(await all(), before)
    const hours = await store.db.selectFrom('ledger_hours').select('hour').execute()
    t.ok(hours.length > 300)
  })

  t.test(
    'seats, and countries, add up to all, also where a version without seats has summed',
    async (t) => {
      const scope = { suppliers, all: true, from: start, to: now }
      const totals = async (then: 'seat' | 'country' = 'seat') => {
        const bySeat = { ...scope, by: 'ssp', then } as const
        const sums = new Map<string, Record<string, number>>()
        for (const { key, wins, duplicate, rejected, margin } of await readRows(
          store,
          bySeat,
          readings,
        )) {
          const sum = sums.get(key) ?? { wins: 0, duplicate: 0, rejected: 0, margin: 0 }
          sums.set(key, {
            wins: sum['wins']! + wins,
            duplicate: sum['duplicate']! + duplicate,
            rejected: sum['rejected']! + rejected,
            margin: sum['margin']! + Number(margin),
          })
        }
        // amounts of other currencies are rounded when they are converted, group by group
        return [...sums].map(([key, sum]) => [key, { ...sum, margin: sum['margin']!.toFixed(3) }])
      }
      const all = (await readRows(store, { ...scope, by: 'ssp' }, readings)).map(
        ({ key, wins, duplicate, rejected, margin }) => [
          key,
          { wins, duplicate, rejected, margin: Number(margin).toFixed(3) },
        ],
      )
      t.same(await totals(), all)
      t.same(await totals('country'), all)
      const countries = await readRows(store, { ...scope, by: 'country' }, readings)
      t.same(
        countries.map(({ key, duplicate }) => [key, duplicate]),
        [
          ['', 1],
          ['DEU', 2],
          ['FRA', 0],
        ],
      )
      const known = await readRows(store, { ...scope, by: 'seat' }, readings)
      t.same(
        known.map(({ key }) => key),
        ['', 's1', 's2'],
      )
      const saved = await store.db.selectFrom('ledger_hour_seats').selectAll().execute()
      const gone = start + 5 * hour
      await store.db.deleteFrom('ledger_hour_seats').where('hour', '<', gone).execute()
      t.same(await totals(), all)
      const fewer = await readRows(store, { ...scope, by: 'seat' }, readings)
      t.ok(fewer[0]!.wins > known[0]!.wins && fewer[1]!.wins < known[1]!.wins)
      for (const row of saved.filter((row) => Number(row.hour) < gone))
        await store.db.insertInto('ledger_hour_seats').values(row).execute()
      t.same(await totals(), all)
    },
  )

  t.test(
    'a notice that was committed late is in the sums before its hour is deleted',
    async (t) => {
      await store.ledger.record(
        entry('slow', { at: start + 100, currency: 'USD', publisher: 'p1', domain: null }),
      )
      // names that no index has room for
      const long = { publisher: randomBytes(4000).toString('hex'), currency: 'X'.repeat(5000) }
      await store.ledger.record(entry('long', { ...long, supplier: 'strange', at: start + 100 }))
      keep = day
      now = start + 3 * day
      const expected = await store.db
        .selectFrom(ledgerTable(store.postgres))
        .select('at')
        .where('at', '<', start + 2 * day)
        .execute()
      // PostgreSQL drops whole days
      t.equal(await retention.run(), store.postgres ? 0 : expected.length)
      t.equal(Number((await rolled()).sealed), start + 2 * day)
      t.equal(
        (await store.db.selectFrom(ledgerTable(store.postgres)).select('at').execute()).length,
        0,
      )
      const after = await all(['whole'])
      const [was] = before['whole by ssp, own'] as { key: string; wins: number }[]
      const [is] = after['whole by ssp, own'] as { key: string; wins: number }[]
      t.equal(is!.key, 'acme')
      t.equal(is!.wins, was!.wins + 1)
      t.same(
        (after['whole by ssp, own'] as unknown[]).slice(1),
        (before['whole by ssp, own'] as unknown[]).slice(1),
        'of the others the rows are gone, the sums are what they were',
      )
      t.equal(await retention.run(), 0, 'again: nothing left, nothing counted twice')
      t.same(await all(['whole']), after)
    },
  )

  t.test('one node sums at a time, and another continues after it was killed', async (t) => {
    await store.ledger.record(entry('new', { at: now + 10 }))
    now += day
    // PostgreSQL counts by its own clock
    const leaseUntil = (lease: number) => store.db.updateTable('rolled').set({ lease }).execute()
    const clock = store.postgres ? Date.now() : now
    await leaseUntil(clock + hour)
    const other = new Retention(store, options)
    t.teardown(() => other.close())
    const { until } = await rolled()
    await other.run()
    t.same((await rolled()).until, until, 'another has the lease')
    await leaseUntil(clock - 1)
    await other.run()
    t.ok(Number((await rolled()).until) > Number(until), 'a lease ends by itself')
  })
})

/** Sums of doubles depend on their order in the last digits. */
function rounded<T extends object>(row: T): T {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === 'number' ? Number(value.toPrecision(9)) : value,
    ]),
  ) as T
}
