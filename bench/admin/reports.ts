/** Reports over a month of wins, and what it takes to sum and to remove them. The rows are made by the database. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { readRows } from '../../admin/reports/rows.ts'
import type { Scope } from '../../admin/reports/scope.ts'
import { day, hour, hourOf } from '../../admin/store/hour.ts'
import { openStore, type Store } from '../../admin/store/index.ts'
import { createLedgerDays } from '../../admin/store/ledger-days.ts'
import { openReader } from '../../admin/store/reader.ts'
import { createRetention } from '../../admin/store/retention.ts'
import { ledgerTable } from '../../admin/store/tables.ts'
import { postgresAbsent, startPostgres } from '../../test/support/postgres.ts'
import type { Run } from '../harness/bench.ts'
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

async function databaseOf(name: string) {
  if (name === 'PostgreSQL') {
    const server = await startPostgres()
    return { url: server.url, close: () => server.close() }
  }
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-bench-'))
  const close = async () => rmSync(folder, { recursive: true, force: true })
  return { url: `sqlite:${join(folder, 'a.db')}`, close }
}

/** `count` wins spread over the days before `end`: 200 publishers of 20 suppliers, a tenth of them in the holdout. */
async function fill({ db, postgres }: Store, count: number, end: number): Promise<void> {
  const begin = end - days * day
  if (postgres) {
    const from = Math.floor(begin / day)
    await createLedgerDays(db).ensure(Array.from({ length: days + 1 }, (_, n) => from + n))
  }
  const table = sql.table(ledgerTable(postgres))
  const text = (prefix: string, of: string) => sql.raw(`'${prefix}' || (${of})`)
  const time = `(${begin} + n * ${Math.floor((days * day) / count)})`
  const at = sql.raw(time)
  for (let first = 0; first < count; first += sliceRows) {
    const last = Math.min(count, first + sliceRows) - 1
    const numbers = postgres
      ? sql.raw(`generate_series(${first}::bigint, ${last}::bigint) as numbers(n)`)
      : sql.raw(
          `(with recursive numbers(n) as (select ${first} union all select n + 1 from numbers where n < ${last}) select n from numbers)`,
        )
    await sql`insert into ${table} (decision, event, bid_id, status, "by", supplier, mode, arm, publisher, domain,
        in_ba, out_ba, cleared, currency, margin, late, "over", decided_at, at ${sql.raw(postgres ? ', day' : '')})
      select ${text('decision-', 'n')}, 'win', ${text('bid-', 'n')}, 'attributed', 'context',
        ${text('s', 'n % 20')}, 'revenue', case when n % 10 = 0 then 'holdout' else 'treated' end,
        ${text('p', 'n % 200')}, ${text('d', 'n % 200')}, ${sql.raw(postgres ? '2.1, 1.9, 1.85' : "'2.1', '1.9', '1.85'")},
        'USD', ${sql.raw(postgres ? '0.25' : "'0.25'")}, 0, 0, ${at}, ${at}
        ${postgres ? sql.raw(`, cast(${time} / ${day} as integer)`) : sql``}
      from ${numbers}`.execute(db)
  }
  const arms = sql.raw(
    postgres
      ? "(values ('treated'), ('holdout')) as arms(arm)"
      : "(select 'treated' as arm union all select 'holdout')",
  )
  for (let at = hourOf(begin); at < end; at += hour) {
    const numbers = postgres
      ? sql.raw('generate_series(0, 199) as numbers(n)')
      : sql.raw(
          '(with recursive numbers(n) as (select 0 union all select n + 1 from numbers where n < 199) select n from numbers)',
        )
    await sql`insert into decided (hour, supplier, mode, arm, publisher, domain, bids, in_sum, out_sum)
      select ${sql.lit(at)}, ${text('s', 'n % 20')}, 'revenue', arm, ${text('p', 'n')}, ${text('d', 'n')}, 500, 1050, 950
      from ${numbers}, ${arms}`.execute(db)
  }
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

async function measure(run: Progress, name: string, count: number): Promise<[Cell[][], string]> {
  const database = await databaseOf(name)
  try {
    const now = Date.now()
    // the first partition ends before the rows begin
    const store = await openStore(database.url, { now: () => now - 2 * days * day, log })
    const [made] = await timed(() => fill(store, count, now))
    run.say(`  ${name}: ${count} rows in ${made.toFixed(0)} s`)
    let keep = 400 * day
    const options = { keep: () => keep, now: () => now, log }
    const retention = createRetention(store, options)
    const [summed] = await timed(() => retention.run())
    run.say(`  ${name}: summed in ${summed.toFixed(0)} s`)
    const reader = await openReader(store.url)
    const rows: Cell[][] = []
    for (const [what, [by, then]] of Object.entries(cases)) {
      const scope = { suppliers: [], all: true, from: now - days * day, to: now, by, then }
      const read = () => timed(() => readRows(reader, scope, { notices: {}, rates: null }))
      const tries = []
      for (let n = 0; n < attempts; n++) tries.push(await read())
      tries.sort(([one], [other]) => one - other)
      const [seconds, found, busy] = tries[0]!
      const middle = median(tries.map(([each]) => each))
      const wins = found.reduce((sum, row) => sum + row.wins, 0)
      run.say(
        `  ${name}, ${what}: ${seconds.toFixed(2)} s, median ${middle.toFixed(2)} s, ${busy.toFixed(2)} s of CPU`,
      )
      rows.push([
        name,
        what,
        seconds.toFixed(2),
        middle.toFixed(2),
        busy.toFixed(2),
        found.length,
        wins,
      ])
      if (wins !== count) run.refuse(`${name}, ${what}: ${wins} wins of ${count}`)
    }
    await reader.db.destroy()
    // the last days are whole; one of them leaves
    keep = (days - 2) * day
    const [removed] = await timed(() => retention.run())
    retention.close()
    await store.close()
    return [
      rows,
      `${name}: a month is summed in ${summed.toFixed(0)} s after a start, the oldest days are summed again and removed in ${removed.toFixed(1)} s.`,
    ]
  } finally {
    await database.close()
  }
}

export async function reports(run: Progress, count: number, stores: string): Promise<Block[]> {
  const rows: Cell[][] = []
  const notes: string[] = []
  for (const name of ['SQLite', 'PostgreSQL']) {
    if (!stores.split(',').includes(name)) continue
    if (name === 'PostgreSQL' && postgresAbsent !== false) {
      run.missing(`${name}: ${postgresAbsent}`)
      continue
    }
    const [found, note] = await measure(run, name, count)
    rows.push(...found)
    notes.push(note)
  }
  const head = [
    'store',
    '30 days, all figures',
    'seconds',
    'median',
    'CPU seconds',
    'rows',
    'wins counted',
  ]
  return [
    `${count} wins of 30 days; the quickest of ${attempts} attempts, and the median.`,
    { head, rows },
    ...notes,
  ]
}
