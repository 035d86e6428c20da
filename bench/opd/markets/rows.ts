/**
 * Recorded prices (the rows of the iPinYou contest): the win curve of a slot is the distribution of the prices that were paid
 * for it. Rows are split by time: tuning uses the first part, reports the second.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { BidFacts } from '../../../opd/learner.ts'
import { firstPrice, type Market, type Offer } from '../market.ts'
import { source } from '../random.ts'

interface Row {
  time: string
  region: string
  exchange: string
  domain: string
  slot: string
  size: string
  floor: number
  paid: number
}
/** Rows that share a curve. */
interface Pool {
  rows: Row[]
  floor: number
  prices: Float64Array
}

/** A slot with fewer rows shares the curve of its exchange, size and floor. */
const leastRows = 20
const tunedShare = 0.5

/** Columns before the bid identifier differ between the published files. */
function rowOf(line: string): (Row & { advertiser: string }) | null {
  const all = line.split('\t')
  const first = all.findIndex((value) => /^[0-9a-f]{28,32}$/.test(value))
  if (first < 0 || all.length < first + 23) return null
  const at = (n: number) => all[first + n]!
  const [floor, paid] = [Number(at(17)), Number(at(20))]
  if (!(floor >= 0 && paid > 0)) return null
  return {
    time: at(1),
    region: at(6),
    exchange: at(8),
    domain: at(9),
    slot: at(12),
    size: `${at(13)}x${at(14)}`,
    floor: floor / 100,
    paid: paid / 100,
    advertiser: at(22),
  }
}

/** Rows of a folder's text files by advertiser, in order of time. */
export function readRows(folder: string): Map<string, Row[]> {
  const found = new Map<string, Row[]>()
  for (const file of readdirSync(folder).sort()) {
    if (!/\.(txt|log)$/.test(file)) continue
    for (const line of readFileSync(join(folder, file), 'utf8').split('\n')) {
      const row = rowOf(line)
      if (row === null) continue
      const rows = found.get(row.advertiser)
      if (rows === undefined) found.set(row.advertiser, [row])
      else rows.push(row)
    }
  }
  for (const rows of found.values())
    rows.sort((one, other) => (one.time < other.time ? -1 : one.time > other.time ? 1 : 0))
  return found
}

function poolsOf(rows: readonly Row[]): Map<Row, Pool> {
  const groups = new Map<string, Row[]>()
  const put = (name: string, row: Row) => {
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [row])
    else group.push(row)
  }
  const own = (row: Row) => `${row.slot} ${row.floor}`
  const shared = (row: Row) => `${row.exchange} ${row.size} ${row.floor > 0}`
  for (const row of rows) {
    put(own(row), row)
    put(shared(row), row)
  }
  const pools = new Map<Row[], Pool>()
  return new Map(
    rows.map((row) => {
      const mine = groups.get(own(row))!
      const group = mine.length < leastRows ? groups.get(shared(row))! : mine
      const prices = Float64Array.from(group, ({ paid }) => paid).sort()
      const pool = pools.get(group) ?? { rows: group, floor: row.floor, prices }
      pools.set(group, pool)
      return [row, pool]
    }),
  )
}

/** `part`: rows to tune on, or rows to report on. */
export function recorded(
  all: readonly Row[],
  part: 'tuned' | 'reported',
  seed: number,
  every = 86_400_000 / 150_000,
): Market {
  const cut = Math.floor(all.length * tunedShare)
  const rows = part === 'tuned' ? all.slice(0, cut) : all.slice(cut)
  const pools = poolsOf(rows)
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const campaigns = Array.from({ length: 6 }, () => ({
    level: 0.2 + 0.3 * world.normal(),
    spread: world.uniform() < 0.5 ? 0.1 : 0.35,
  }))
  const facts: BidFacts = { supplier: '', mode: 'revenue', inBa: 1, floor: 0 }
  let pool: Pool = pools.get(rows[0]!)!
  const reach = 0.96
  const offer: Offer = {
    facts,
    wins(price) {
      if (price < facts.floor) return 0
      const { prices } = pool
      let [low, high] = [0, prices.length]
      while (low < high) {
        const middle = (low + high) >> 1
        if (prices[middle]! <= price + 1e-9) low = middle + 1
        else high = middle
      }
      return (reach * low) / prices.length
    },
    margin: (price) => firstPrice(offer, price),
    clears: (price) => price,
    lowest(u) {
      const { prices } = pool
      const rank = Math.floor((u / reach) * prices.length)
      return rank >= prices.length ? Number.POSITIVE_INFINITY : Math.max(facts.floor, prices[rank]!)
    },
    jumps: () => {
      const shown: number[] = []
      for (const price of pool.prices) if (price !== shown.at(-1)) shown.push(price)
      return shown.slice(0, 400)
    },
  }
  return {
    name: `recorded ${part} ${rows.length} ${rows[0]!.time}`,
    every,
    offer() {
      const row = rows[draw.below(rows.length)]!
      pool = pools.get(row)!
      const at = draw.below(campaigns.length)
      const { level, spread } = campaigns[at]!
      const usual = pool.prices[pool.prices.length >> 1]!
      const value = usual * Math.exp(level + spread * draw.normal())
      facts.floor = row.floor
      facts.inBa = Math.round(100 * Math.max(value, facts.floor * (1.05 + draw.uniform()))) / 100
      facts.supplier = `exchange-${row.exchange}`
      facts.publisher = row.domain
      facts.placement = row.slot
      facts.country = `CN-${row.region}`
      facts.format = 'banner'
      facts.size = row.size
      facts.dsp = `dsp-${at}`
      return offer
    },
  }
}
