/**
 * Exact sums of decimal texts for SQLite. Its own sum of integers would fail permanently after one notice with an
 * absurd price. PostgreSQL uses `sum(numeric)`.
 */

interface Sum {
  /** Millionths of short texts, a safe integer. This costs a third of a BigInt. */
  micros: number
  digits: bigint
  scale: number
}

const shortest = 6
/** Texts up to this length with at most six fractional digits are safe integers in millionths. */
const longestShort = 15
const spill = 2 ** 52

function add(sum: Sum, text: unknown): Sum {
  if (typeof text !== 'string') return sum
  const point = text.indexOf('.')
  const scale = point === -1 ? 0 : text.length - point - 1
  if (scale <= shortest && text.length - scale <= longestShort - shortest) {
    sum.micros += Math.round(Number(text) * 1e6)
    if (Math.abs(sum.micros) > spill) flush(sum)
    return sum
  }
  if (scale > sum.scale) {
    sum.digits *= 10n ** BigInt(scale - sum.scale)
    sum.scale = scale
  }
  const digits = BigInt(point === -1 ? text : text.slice(0, point) + text.slice(point + 1))
  sum.digits += digits * 10n ** BigInt(sum.scale - scale)
  return sum
}

function flush(sum: Sum): void {
  sum.digits += BigInt(sum.micros) * 10n ** BigInt(sum.scale - shortest)
  sum.micros = 0
}

function textOf(sum: Sum): string {
  flush(sum)
  const sign = sum.digits < 0n ? '-' : ''
  const digits = (sum.digits < 0n ? -sum.digits : sum.digits).toString()
  const padded = digits.padStart(sum.scale + 1, '0')
  return `${sign}${padded.slice(0, -sum.scale)}.${padded.slice(-sum.scale)}`
}

/** The functions that `DatabaseSync.aggregate` needs. */
export const exactSum = {
  start: (): Sum => ({ micros: 0, digits: 0n, scale: shortest }),
  step: add,
  result: textOf,
}
