/**
 * Recorded prices (the rows of the iPinYou contest): the win curve of a slot is the distribution of the prices that were paid
 * for it. Rows are split by time: tuning uses the first part, reports the second.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { firstPriceOffer, type Market, newFacts, usualEvery } from '../market.ts'
import { countBelow, source } from '../random.ts'

interface Row {
  time: string
  region: string
  exchange: string
  domain: string
  slot: string
  size: string
  floor: number
  paid: number
  advertiser: string
}

/** A slot with fewer rows shares the curve of its exchange, size and floor. */
const leastRows = 20

/** Columns before the bid identifier differ between the published files. */
function rowOf(line: string): Row | null {
  const all = line.split('\t')
  const first = all.findIndex((value) => /^[0-9a-f]{28,32}$/.test(value))
  if (first < 0 || all.length < first + 23) return null
  const rowAt = (n: number) => all[first + n]!
  const [floor, paid] = [Number(rowAt(17)), Number(rowAt(20))]
  if (!(floor >= 0 && paid > 0)) return null
  return {
    time: rowAt(1),
    region: rowAt(6),
    exchange: rowAt(8),
    domain: rowAt(9),
    slot: rowAt(12),
    size: `${rowAt(13)}x${rowAt(14)}`,
    floor: floor / 100,
    paid: paid / 100,
    advertiser: rowAt(22),
  }
}

/** Rows of a folder's text files by advertiser, in order of time. */
export function readRows(folder: string): Map<string, Row[]> {
  const rows = readdirSync(folder)
    .sort()
    .filter((file) => /\.(txt|log)$/.test(file))
    .flatMap((file) => readFileSync(join(folder, file), 'utf8').split('\n'))
    .map(rowOf)
    .filter((row) => row !== null)
    .sort((one, other) => (one.time < other.time ? -1 : Number(one.time > other.time)))
  return Map.groupBy(rows, ({ advertiser }) => advertiser)
}

/** By row, the sorted prices of the rows that share its curve. */
function curvesOf(rows: readonly Row[]): Map<Row, Float64Array> {
  const keyOfRow = (row: Row) => `${row.slot} ${row.floor}`
  const shared = (row: Row) => `${row.exchange} ${row.size} ${row.floor > 0}`
  const [slots, others] = [Map.groupBy(rows, keyOfRow), Map.groupBy(rows, shared)]
  const curves = new Map<Row[], Float64Array>()
  return new Map(
    rows.map((row) => {
      const mine = slots.get(keyOfRow(row))!
      const group = mine.length < leastRows ? others.get(shared(row))! : mine
      const prices = curves.get(group) ?? Float64Array.from(group, ({ paid }) => paid).sort()
      curves.set(group, prices)
      return [row, prices]
    }),
  )
}

/** The later half of the rows in time; on the first half was tuned, so it is never measured here. */
export function recorded(all: readonly Row[], seed: number): Market {
  const rows = all.slice(Math.floor(all.length / 2))
  const curves = curvesOf(rows)
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const campaigns = Array.from({ length: 6 }, () => ({
    level: 0.2 + 0.3 * world.normal(),
    spread: world.uniform() < 0.5 ? 0.1 : 0.35,
  }))
  const facts = newFacts()
  let prices = curves.get(rows[0]!)!
  const reach = 0.96
  const wins = (price: number) =>
    price < facts.floor ? 0 : (reach * countBelow(prices, price + 1e-9, true)) / prices.length
  const offer = firstPriceOffer(facts, wins, {
    lowest(u) {
      const rank = Math.floor((u / reach) * prices.length)
      return rank >= prices.length ? Number.POSITIVE_INFINITY : Math.max(facts.floor, prices[rank]!)
    },
    jumps: () => [...new Set(prices)].slice(0, 400),
  })
  return {
    name: `recorded ${rows.length} ${rows[0]!.time}`,
    every: usualEvery,
    offer() {
      const row = rows[draw.below(rows.length)]!
      prices = curves.get(row)!
      const campaign = draw.below(campaigns.length)
      const { level, spread } = campaigns[campaign]!
      const usual = prices[prices.length >> 1]!
      const value = usual * Math.exp(level + spread * draw.normal())
      facts.floor = row.floor
      facts.inBa = Math.round(100 * Math.max(value, facts.floor * (1.05 + draw.uniform()))) / 100
      facts.supplier = `exchange-${row.exchange}`
      facts.publisher = row.domain
      facts.placement = row.slot
      facts.country = `CN-${row.region}`
      facts.format = 'banner'
      facts.size = row.size
      facts.dsp = `dsp-${campaign}`
      return offer
    },
  }
}
