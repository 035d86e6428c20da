/**
 * Exact sums of decimal texts for SQLite. Its own sum of integers would fail permanently after one notice with an
 * absurd price. PostgreSQL uses `sum(numeric)`.
 */
import { type Decimal, decimalText, plus, signedDecimal, zero } from '../../opd/shared/decimal.ts'

interface Sum {
  /** Millionths of short texts, a safe integer. This costs a third of a BigInt. */
  micros: number
  total: Decimal
}

/** Texts up to this length with at most six fractional digits are safe integers in millionths. */
const longestShort = 15
const spill = 2 ** 52

function add(sum: Sum, text: unknown): Sum {
  if (typeof text !== 'string') return sum
  const point = text.indexOf('.')
  const scale = point === -1 ? 0 : text.length - point - 1
  if (scale <= 6 && text.length - scale <= longestShort - 6) {
    sum.micros += Math.round(Number(text) * 1e6)
    if (Math.abs(sum.micros) > spill) flush(sum)
  } else sum.total = plus(sum.total, signedDecimal(text))
  return sum
}

function flush(sum: Sum): void {
  sum.total = plus(sum.total, { digits: BigInt(sum.micros), scale: 6 })
  sum.micros = 0
}

/** The functions that `DatabaseSync.aggregate` needs. */
export const exactSum = {
  start: (): Sum => ({ micros: 0, total: zero }),
  step: add,
  result(sum: Sum): string {
    flush(sum)
    return decimalText(sum.total)
  },
}
