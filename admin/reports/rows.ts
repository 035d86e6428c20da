/** One row a group: what was decided, what was won, and what the optimised bids kept of the holdout's wins. */
import { type RawBuilder, sql } from 'kysely'
import type { Group } from '../reports.ts'
import type { Store } from '../store/index.ts'

export interface ReportRow {
  key: string
  decided: number
  wins: number
  unattributed: number
  rejected: number
  late: number
  over: number
  /** Exact to a millionth, CPM. */
  revenue: string
  cleared: string
  out_ba: string
  margin: string
  /** Cleared less out_ba. */
  difference: string
  win_rate: number | null
  /** Win rate of the optimised bids over that of the holdout, with its 95 % interval; null without a holdout. */
  kept: number | null
  kept_low: number | null
  kept_high: number | null
  /** Margin per bid of the optimised over that of the holdout, with its 95 % interval, CPM. */
  uplift: number | null
  uplift_low: number | null
  uplift_high: number | null
}

export interface Scope {
  suppliers: readonly string[]
  /** Notices of no supplier count as well. */
  all: boolean
  from: number
  to: number
  by: Group
}

const optimised = new Set(['treated', 'explored'])
const hour = 3_600_000

interface Arm {
  bids: number
  wins: number
  margin: number
  /** Sum of squares of the margin of each win. */
  squares: number
}

interface Sums {
  decided: number
  wins: number
  unattributed: number
  rejected: number
  late: number
  over: number
  revenue: bigint
  cleared: bigint
  out: bigint
  margin: bigint
  treated: Arm
  holdout: Arm
}

const empty = (): Sums => ({
  decided: 0,
  wins: 0,
  unattributed: 0,
  rejected: 0,
  late: 0,
  over: 0,
  revenue: 0n,
  cleared: 0n,
  out: 0n,
  margin: 0n,
  treated: { bids: 0, wins: 0, margin: 0, squares: 0 },
  holdout: { bids: 0, wins: 0, margin: 0, squares: 0 },
})

const spans: Readonly<Record<string, number>> = { hour, day: 24 * hour }

/** What rows are grouped by; `at` is the column of the time. */
function keyOf(by: Group, at: string): RawBuilder<string> {
  const span = spans[by]
  if (span === undefined)
    return sql<string>`coalesce(${sql.ref(by === 'ssp' ? 'supplier' : by)}, '')`
  return sql<string>`cast((${sql.ref(at)} / ${sql.lit(span)}) * ${sql.lit(span)} as text)`
}

/** Millionths as an integer: sums of them are exact on both databases. */
const millionths = (column: string) =>
  sql<string>`cast(coalesce(sum(cast(round(${sql.ref(column)} * 1000000) as bigint)), 0) as text)`

const decimal = (value: bigint): string => {
  const sign = value < 0n ? '-' : ''
  const digits = (value < 0n ? -value : value).toString().padStart(7, '0')
  const fraction = digits.slice(-6).replace(/0+$/, '')
  return sign + digits.slice(0, -6) + (fraction === '' ? '' : `.${fraction}`)
}

async function ledgerRows(store: Store, { suppliers, all, from, to, by }: Scope) {
  const key = keyOf(by, 'at')
  return store.db
    .selectFrom('ledger')
    .select([
      key.as('key'),
      'status',
      'arm',
      sql<number>`count(*)`.as('n'),
      sql<number>`sum(late)`.as('late'),
      sql<number>`sum(${sql.ref('over')})`.as('over_count'),
      millionths('in_ba').as('revenue'),
      millionths('cleared').as('cleared'),
      millionths('out_ba').as('out'),
      millionths('margin').as('margin'),
      sql<number>`coalesce(sum(cast(margin as double precision) * cast(margin as double precision)), 0)`.as(
        'squares',
      ),
    ])
    .where('at', '>=', from)
    .where('at', '<', to)
    .where('event', '=', 'win')
    .where(({ eb, or }) =>
      or([
        suppliers.length === 0 ? sql<boolean>`1 = 0` : eb('supplier', 'in', [...suppliers]),
        ...(all ? [eb('supplier', 'is', null)] : []),
      ]),
    )
    .groupBy([key, 'status', 'arm'])
    .execute()
}

async function decidedRows(store: Store, { suppliers, from, to, by }: Scope) {
  if (suppliers.length === 0) return []
  const key = keyOf(by, 'hour')
  return store.db
    .selectFrom('decided')
    .select([key.as('key'), 'arm', sql<number>`sum(bids)`.as('n')])
    .where('hour', '>=', from - (from % hour))
    .where('hour', '<', to)
    .where('supplier', 'in', [...suppliers])
    .groupBy([key, 'arm'])
    .execute()
}

const armOf = (sums: Sums, arm: string | null): Arm | null =>
  arm === 'holdout' ? sums.holdout : arm !== null && optimised.has(arm) ? sums.treated : null

/** OPD.md's formula: Var(ln kept) = (1 - wT) / (nT wT) + (1 - wC) / (nC wC). */
function keptOf({ treated, holdout }: Sums) {
  if (treated.wins === 0 || holdout.wins === 0)
    return { kept: null, kept_low: null, kept_high: null }
  const [rateT, rateC] = [treated.wins / treated.bids, holdout.wins / holdout.bids]
  const kept = rateT / rateC
  const variance = (1 - rateT) / (treated.bids * rateT) + (1 - rateC) / (holdout.bids * rateC)
  const spread = Math.exp(1.96 * Math.sqrt(Math.max(0, variance)))
  return { kept, kept_low: kept / spread, kept_high: kept * spread }
}

function upliftOf({ treated, holdout }: Sums) {
  if (treated.bids === 0 || holdout.bids === 0)
    return { uplift: null, uplift_low: null, uplift_high: null }
  const mean = (arm: Arm) => arm.margin / arm.bids
  const variance = (arm: Arm) => Math.max(0, arm.squares / arm.bids - mean(arm) ** 2) / arm.bids
  const uplift = mean(treated) - mean(holdout)
  const spread = 1.96 * Math.sqrt(variance(treated) + variance(holdout))
  return { uplift, uplift_low: uplift - spread, uplift_high: uplift + spread }
}

export async function rowsBy(store: Store, scope: Scope): Promise<ReportRow[]> {
  const groups = new Map<string, Sums>()
  const of = (key: string) => {
    let sums = groups.get(key)
    if (sums === undefined) {
      sums = empty()
      groups.set(key, sums)
    }
    return sums
  }
  for (const { key, arm, n } of await decidedRows(store, scope)) {
    const sums = of(key)
    sums.decided += Number(n)
    const side = armOf(sums, arm)
    if (side !== null) side.bids += Number(n)
  }
  for (const row of await ledgerRows(store, scope)) {
    const sums = of(row.key)
    const n = Number(row.n)
    if (row.status !== 'attributed') {
      sums[row.status === 'rejected' ? 'rejected' : 'unattributed'] += n
      continue
    }
    sums.wins += n
    sums.late += Number(row.late)
    sums.over += Number(row.over_count)
    sums.revenue += BigInt(row.revenue)
    sums.cleared += BigInt(row.cleared)
    sums.out += BigInt(row.out)
    sums.margin += BigInt(row.margin)
    const side = armOf(sums, row.arm)
    if (side === null) continue
    side.wins += n
    side.margin += Number(row.margin) / 1e6
    side.squares += Number(row.squares)
  }
  const timed = spans[scope.by] !== undefined
  return [...groups]
    .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    .map(([key, sums]) => ({
      key: timed ? new Date(Number(key)).toISOString() : key,
      decided: sums.decided,
      wins: sums.wins,
      unattributed: sums.unattributed,
      rejected: sums.rejected,
      late: sums.late,
      over: sums.over,
      revenue: decimal(sums.revenue),
      cleared: decimal(sums.cleared),
      out_ba: decimal(sums.out),
      margin: decimal(sums.margin),
      difference: decimal(sums.cleared - sums.out),
      win_rate: sums.decided === 0 ? null : sums.wins / sums.decided,
      ...keptOf(sums),
      ...upliftOf(sums),
    }))
}
