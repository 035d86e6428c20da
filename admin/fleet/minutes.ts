/** The minutes of a range as series, and the changes that were made in it. Money is in units of the base currency. */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import * as z from 'zod'
import { type Interval, type KeptTotals, keptSpend, keptWins } from '../../opd/shared/confidence.ts'
import { type MinuteSum, minuteSums, tookBounds } from '../store/minute-sums.ts'
import type { Tables } from '../store/tables.ts'
import { quantile } from './figures.ts'
import { isKnown } from './health.ts'

export interface MinutesRequest {
  /** Ids; null: all suppliers. */
  suppliers: readonly string[] | null
  /** Of the changes of one supplier only. */
  only: string | null
  /** Milliseconds since the epoch; multiples of `step`. */
  from: number
  to: number
  /** Milliseconds, a multiple of a minute. */
  step: number
  now: number
  /** The base currency. */
  currency: string
}

const markKinds = ['start', 'reload', 'refit', 'hold', 'model', 'change'] as const
type MarkKind = (typeof markKinds)[number]

const series = z.array(z.number().nullable())
const seriesNames = {
  requests: 'Bid requests',
  failed: 'Share of the requests sent to the supplier without a whole response in time',
  refused: 'Share of the requests that bidweir refused',
  p50: 'Seconds that the supplier took, median',
  p99: 'The same of 99 %',
  bids: 'Bids that OPD decided',
  wins: 'Win notices that belong to a decision',
  kept_wins: 'Win rate of optimized bids divided by that of the holdout; null: too few wins',
  kept_wins_low: 'Lower end of its 95 % interval',
  kept_wins_high: 'Upper end',
  kept_spend: 'The same of spend',
  kept_spend_low: 'Lower end of its 95 % interval',
  kept_spend_high: 'Upper end',
  revenue: 'Of wins, in units of `currency`',
  margin: 'Revenue minus cleared prices, in units of `currency`',
  factor: 'Outbound prices divided by inbound prices',
} as const
type SeriesName = keyof typeof seriesNames

export const minutesSchema = z
  .strictObject({
    from: z.number().describe('Begin of the first entry, milliseconds since the epoch'),
    step: z.number().describe('Minutes of one entry'),
    since: z.number().nullable().describe('The first minute that is kept; null: none'),
    now: z.number().describe('The entry that contains this time has not ended'),
    currency: z.string(),
    values: z
      .strictObject(
        Object.fromEntries(
          Object.entries(seriesNames).map(([name, text]) => [name, series.describe(text)]),
        ) as Record<SeriesName, typeof series>,
      )
      .describe('One entry for each step; null in all of them: no node ran'),
    marks: z
      .array(
        z.strictObject({
          at: z.number(),
          kind: z.enum(markKinds),
          text: z.string(),
        }),
      )
      .describe('What was changed, oldest first, at most 200'),
  })
  .meta({ id: 'Minutes' })
export type Minutes = z.infer<typeof minutesSchema>
type Mark = Minutes['marks'][number]

type Sums = Record<MinuteSum, number>
interface Reader {
  db: Kysely<Tables>
  postgres: boolean
}

const mostMarks = 200

async function readSums(
  { db }: Reader,
  { from, to, step }: MinutesRequest,
  suppliers: RawBuilder<unknown>,
): Promise<Map<number, Sums>> {
  const begin = sql`(minute / ${sql.lit(step)}) * ${sql.lit(step)}`
  const sums = minuteSums.map((name) => sql`sum(${sql.ref(name)}) as ${sql.ref(name)}`)
  const { rows } = await sql<{ at: number } & Sums>`select ${begin} as at, ${sql.join(sums)}
    from minutes where supplier in ${suppliers} and minute >= ${sql.lit(from)}
    and minute < ${sql.lit(to)} group by ${begin}`.execute(db)
  // PostgreSQL adds integers up to decimals
  const numbers = (row: Sums) =>
    Object.fromEntries(minuteSums.map((name) => [name, Number(row[name])])) as Sums
  return new Map(rows.map((row) => [Number(row.at), numbers(row)]))
}

const took = [...tookBounds, 'more'] as const
const durations = (sums: Sums): Record<string, number> =>
  Object.fromEntries(
    took.map((bound) => [bound === 'more' ? 'Infinity' : bound / 1000, sums[`took_${bound}`]]),
  )

const ratio = (part: number, total: number) => (total === 0 ? null : part / total)

const totals = (sums: Sums, arm: 'optimised' | 'holdout'): KeptTotals => ({
  bids: sums[`${arm}_bids`],
  wins: sums[`${arm}_wins`],
  spend: sums[`${arm}_spend`],
  spendSquares: sums[`${arm}_squares`],
  margin: 0,
  marginSquares: 0,
})

/** `name` and the ends of its interval; null if too few wins are known. */
const withEnds = <Name extends 'kept_wins' | 'kept_spend'>(
  name: Name,
  interval: Interval | null,
) => {
  const known =
    interval !== null && isKnown(interval) ? interval : { at: null, lower: null, upper: null }
  return { [name]: known.at, [`${name}_low`]: known.lower, [`${name}_high`]: known.upper }
}

function entryOf(sums: Sums): Record<SeriesName, number | null> {
  const { requests, sent, failed, refused, bids, wins, in_sum, out_sum } = sums
  const [optimised, holdout] = [totals(sums, 'optimised'), totals(sums, 'holdout')]
  // a supplier that refuses each connection at once is not fast
  const known = failed === sent ? {} : durations(sums)
  return {
    ...{ requests, bids, wins },
    failed: ratio(failed, sent),
    refused: ratio(refused, requests),
    p50: quantile(known, 0.5),
    p99: quantile(known, 0.99),
    ...withEnds('kept_wins', keptWins(optimised, holdout)),
    ...withEnds('kept_spend', keptSpend(optimised, holdout)),
    // sums of CPM are for a thousand impressions
    revenue: sums.revenue / 1000,
    margin: sums.margin / 1000,
    factor: ratio(out_sum, in_sum),
  } as Record<SeriesName, number | null>
}

const nodeWords = { starts: 'start', reloads: 'reload', refits: 'refit' } as const
const nodeTexts = {
  start: 'a node started',
  reload: 'the configuration was read again',
  refit: 'the model was fitted again',
}

function nodeMarks(all: ReadonlyMap<number, Sums>): Mark[] {
  return [...all].flatMap(([minute, sums]) =>
    Object.entries(nodeWords).flatMap(([name, kind]) =>
      sums[name as keyof typeof nodeWords] === 0
        ? []
        : [{ at: minute, kind, text: nodeTexts[kind] }],
    ),
  )
}

interface AuditRow {
  at: number
  supplier: string
  action: string
  before: string | null
  after: string | null
}

/** What an `opd` block says of the bids that are priced. */
function shareText(block: unknown): string {
  const { opd } = (block ?? {}) as { opd?: { enabled?: boolean | 'shadow'; share?: number } }
  if (opd?.enabled === 'shadow') return 'in shadow'
  if (opd === undefined || opd.enabled === false) return 'off'
  return opd.share === undefined || opd.share === 1 ? 'on' : `on for ${opd.share * 100} %`
}

const modelTexts: Readonly<Record<string, string>> = {
  freeze: 'the models were frozen',
  unfreeze: 'the models learn again',
  rollback: 'a model was rolled back',
  reset: 'a model was reset',
}
const blockTexts: Readonly<Record<string, string>> = {
  create: 'seats or data centers were added',
  update: 'seats or data centers were changed',
  supplier_create: 'the supplier was added',
  supplier_update: 'the supplier was changed',
  supplier_delete: 'the supplier was deleted',
  supplier_revert: 'the supplier returned to an earlier version',
}

function markOf({ at: time, supplier, action, before, after }: AuditRow): Mark[] {
  const ofAll = supplier === '*' ? ' of all suppliers' : ''
  const mark = (kind: MarkKind, text: string) => [{ at: Number(time), kind, text }]
  if (action === 'hold') return mark('hold', `hold${ofAll} ${after === 'true' ? 'on' : 'off'}`)
  if (modelTexts[action] !== undefined) return mark('model', modelTexts[action])
  const text = blockTexts[action]
  if (text === undefined) return []
  const [from, to] = [before, after].map((text) => shareText(JSON.parse(text ?? 'null')))
  const isRollout = action.startsWith('supplier_') && before !== 'null' && from !== to
  return mark('change', isRollout ? `OPD ${from} → ${to}` : text)
}

/** Without their authors: changes of all suppliers are seen by every account. */
async function changes({ db }: Reader, request: MinutesRequest): Promise<Mark[]> {
  const { suppliers, only, from, to } = request
  const among = ['*', '', ...(only === null ? [] : [only])]
  const all = suppliers === null && only === null
  const rows = await db
    .selectFrom('audit')
    .select(['at', 'supplier', 'action', 'before', 'after'])
    .where('at', '>=', from)
    .where('at', '<', to)
    .$if(!all, (query) => query.where('supplier', 'in', among))
    .where('action', 'in', ['hold', ...Object.keys(modelTexts), ...Object.keys(blockTexts)])
    .orderBy('id', 'desc')
    .limit(mostMarks)
    .execute()
  return rows.flatMap((row) =>
    markOf(row).map((mark) =>
      all && row.supplier !== '*' && row.supplier !== ''
        ? { ...mark, text: `${row.supplier}: ${mark.text}` }
        : mark,
    ),
  )
}

const ofAll = sql`('')`

export async function readMinutes(
  reader: Reader,
  request: MinutesRequest,
): Promise<Uint8Array<ArrayBuffer>> {
  const { suppliers, from, to, step, now, currency } = request
  const alive = await readSums(reader, request, ofAll)
  const sums =
    suppliers === null
      ? alive
      : suppliers.length === 0
        ? new Map<number, Sums>()
        : await readSums(reader, request, sql`(${sql.join(suppliers.map((id) => sql.lit(id)))})`)
  const none = Object.fromEntries(minuteSums.map((name) => [name, 0])) as Sums
  const entries: Partial<Record<SeriesName, number | null>>[] = []
  for (let index = from; index < to; index += step) {
    const isAlive = alive.has(index)
    // nothing was added yet to a minute that has just begun, which is no gap
    if (!isAlive && index + step > now) break
    entries.push(isAlive ? entryOf(sums.get(index) ?? none) : {})
  }
  const names = Object.keys(seriesNames) as SeriesName[]
  const { rows } = await sql<{ minute: number }>`select minute from minutes where supplier = ''
    order by minute limit 1`.execute(reader.db)
  const marks = [...(await changes(reader, request)), ...nodeMarks(alive)]
    .sort((one, other) => one.at - other.at)
    .slice(-mostMarks)
  const answer: Minutes = {
    ...{ from, now },
    step: step / 60_000,
    since: rows[0] === undefined ? null : Number(rows[0].minute),
    currency,
    values: Object.fromEntries(
      names.map((name) => [name, entries.map((entry) => rounded(entry[name] ?? null))]),
    ) as Minutes['values'],
    marks,
  }
  return new TextEncoder().encode(JSON.stringify(answer))
}

/** Six digits are more than a chart shows. */
const rounded = (value: number | null) => (value === null ? null : Number(value.toPrecision(6)))
