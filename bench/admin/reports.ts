/** Reports over a month of wins, and what it takes to sum and to remove them. The rows are made by the database. */
import { sql } from 'kysely'
import { readRows } from '../../admin/reports/rows.ts'
import type { Scope } from '../../admin/reports/scope.ts'
import { day, hour, hourOf } from '../../admin/store/hour.ts'
import { openStore, type Store } from '../../admin/store/index.ts'
import { createLedgerDays } from '../../admin/store/ledger-sql.ts'
import { openReader } from '../../admin/store/reader.ts'
import { Retention } from '../../admin/store/retention.ts'
import { ledgerTable } from '../../admin/store/tables.ts'
import type { Run } from '../harness/bench.ts'
import { stores } from '../harness/cluster.ts'
import { cpu, tree } from '../harness/process.ts'
import type { Block, Cell } from '../harness/report.ts'
import { median } from '../harness/statistics.ts'

const days = 30
/** The machine is shared: the quickest attempt says what a report takes. */
const attempts = 7
/** A slice takes less than the time limit of a statement, on a busy machine too. */
const sliceRows = 25_000
const say = (fields: object, text: string) =>
  void process.stderr.write(`${text} ${JSON.stringify(fields)}\n`)
const log = { info() {}, warn: say, error: say }

/** A table of the whole numbers from `first` to `last`, for both databases. */
const numbers = (first: number, last: number) =>
  sql.raw(
    `(with recursive counted(n) as (select cast(${first} as bigint) union all select n + 1 from counted where n < ${last}) select n from counted) as numbers`,
  )

/** `count` wins spread over the days before `end`: 200 publishers of 20 suppliers, a tenth of them in the holdout. */
async function fill({ db, postgres }: Store, count: number, end: number): Promise<void> {
  const begin = end - days * day
  if (postgres) {
    const from = Math.floor(begin / day)
    await createLedgerDays(db).ensure(Array.from({ length: days + 1 }, (_, n) => from + n))
  }
  const table = sql.table(ledgerTable(postgres))
  const named = (prefix: string, expression: string) => sql.raw(`'${prefix}' || (${expression})`)
  const begins = sql.raw(`${begin} + n * ${Math.floor((days * day) / count)}`)
  for (let first = 0; first < count; first += sliceRows)
    await sql`insert into ${table} (decision, event, bid_id, status, "by", supplier, mode, arm, publisher, domain,
        in_ba, out_ba, cleared, currency, margin, late, "over", decided_at, at ${sql.raw(postgres ? ', day' : '')})
      select ${named('decision-', 'n')}, 'win', ${named('bid-', 'n')}, 'attributed', 'context',
        ${named('s', 'n % 20')}, 'revenue', case when n % 10 = 0 then 'holdout' else 'treated' end,
        ${named('p', 'n % 200')}, ${named('d', 'n % 200')}, '2.1', '1.9', '1.85', 'USD', '0.25', 0, 0, ${begins}, ${begins}
        ${postgres ? sql`, cast((${begins}) / ${sql.lit(day)} as integer)` : sql``}
      from ${numbers(first, Math.min(count, first + sliceRows) - 1)}`.execute(db)
  for (let from = hourOf(begin); from < end; from += hour)
    await sql`insert into decided (hour, supplier, mode, arm, publisher, domain, bids, in_sum, out_sum)
      select ${sql.lit(from)}, ${named('s', 'n % 20')}, 'revenue', arm, ${named('p', 'n')}, ${named('d', 'n')}, 500, 1050, 950
      from ${numbers(0, 199)}, (select 'treated' as arm union all select 'holdout') as arms`.execute(
      db,
    )
}

/** Seconds of `work`, and of CPU in this process and the database. */
async function timed<T>(work: () => Promise<T>): Promise<[number, T, number]> {
  const before = cpu(tree(process.pid))
  const began = performance.now()
  const result = await work()
  const seconds = (performance.now() - began) / 1000
  return [seconds, result, (cpu(tree(process.pid)) - before) / 1e6]
}

const cases: Record<string, [Scope['by'], Scope['by']?]> = {
  'by supplier': ['ssp'],
  'by publisher': ['publisher'],
  'by day': ['day'],
  'by hour': ['hour'],
  'by supplier and day': ['ssp', 'day'],
}

type Progress = Omit<Run, 'options'>

async function measure(run: Progress, name: 'SQLite' | 'PostgreSQL', count: number) {
  await using database = await stores[name].open()
  await using stack = new AsyncDisposableStack()
  const now = Date.now()
  // the first partition ends before the rows begin
  const store = await openStore(database.config.database, { now: () => now - 2 * days * day, log })
  stack.defer(() => store.close())
  const [made] = await timed(() => fill(store, count, now))
  run.say(`  ${name}: ${count} rows in ${made.toFixed(0)} s`)
  let keep = 400 * day
  const retention = new Retention(store, { keep: () => keep, now: () => now, log })
  stack.defer(() => retention.close())
  const [summed] = await timed(() => retention.run())
  run.say(`  ${name}: summed in ${summed.toFixed(0)} s`)
  const reader = await openReader(store.url)
  stack.defer(() => reader.db.destroy())
  const rows: Cell[][] = []
  for (const [what, [by, then]] of Object.entries(cases)) {
    const scope = { suppliers: [], all: true, from: now - days * day, to: now, by, then }
    const tries = []
    for (let n = 0; n < attempts; n++)
      tries.push(
        await timed(() => readRows(reader, scope, { notices: {}, rates: { USD: 1 }, base: 'USD' })),
      )
    tries.sort(([one], [other]) => one - other)
    const [seconds, found, busy] = tries[0]!
    const wins = found.reduce((sum, row) => sum + row.wins, 0)
    const figures = [seconds, median(tries.map(([took]) => took)), busy].map((s) => s.toFixed(2))
    run.say(`  ${name}, ${what}: ${figures.join(' s, ')} s`)
    rows.push([name, what, ...figures, found.length, wins])
    if (wins !== count) run.refuse(`${name}, ${what}: ${wins} wins of ${count}`)
  }
  // the last days are whole; one of them leaves
  keep = (days - 2) * day
  const [removed] = await timed(() => retention.run())
  const note = `${name}: a month is summed in ${summed.toFixed(0)} s after a start, the oldest days are summed again and removed in ${removed.toFixed(1)} s.`
  return { rows, note }
}

export async function reports(run: Progress, count: number, wanted: string): Promise<Block[]> {
  const rows: Cell[][] = []
  const notes: string[] = []
  for (const name of ['SQLite', 'PostgreSQL'] as const) {
    if (!wanted.split(',').includes(name)) continue
    const { absent } = stores[name]
    if (absent !== false) {
      run.missing(`${name}: ${absent}`)
      continue
    }
    const found = await measure(run, name, count)
    rows.push(...found.rows)
    notes.push(found.note)
  }
  const head = ['store', '30 days, all figures', 'seconds', 'median', 'CPU seconds', 'rows']
  return [
    `${count} wins of 30 days; the quickest of ${attempts} attempts, and the median.`,
    { head: [...head, 'wins counted'], rows },
    ...notes,
  ]
}
