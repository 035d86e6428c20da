/**
 * Exact decimal arithmetic for money (CPM). Prices are compared and multiplied exactly. Only `out_ba` is rounded, once,
 * towards in_ba, to six fractional digits (CONTRACT 4.5).
 */

/** `digits / 10 ** scale`. Prices are never negative; sums and differences may be. */
export interface Decimal {
  digits: bigint
  scale: number
}

/** The number 0. */
export const zero: Decimal = { digits: 0n, scale: 0 }

const numberText = /^(\d+)(?:\.(\d+))?(?:[eE]([+-]?0*\d{1,5}))?$/
/** Longer texts are parsed as a double first, because BigInt parsing is quadratic. */
const maxTextLength = 1200
const maxExponent = 2000

/**
 * Parses a JSON number that is not negative; null for any other text.
 *
 * @param text of any length; an exponent beyond 2000 is refused
 */
export function decimal(text: string): Decimal | null {
  const value = Number(text)
  if (!Number.isFinite(value)) return null
  const match = numberText.exec(text.length > maxTextLength ? String(value) : text)
  if (match === null) return null
  const exponent = Number(match[3] ?? 0)
  if (Math.abs(exponent) > maxExponent) return null
  const fraction = match[2] ?? ''
  const scale = fraction.length - exponent
  const digits = BigInt(match[1] + fraction)
  return scale >= 0 ? { digits, scale } : { digits: digits * 10n ** BigInt(-scale), scale: 0 }
}

/**
 * Parses a plain decimal with or without a sign, as a database formats it.
 *
 * @param text such as `-0.25`; without an exponent
 */
export function signedDecimal(text: string): Decimal {
  const point = text.indexOf('.')
  if (point === -1) return { digits: BigInt(text), scale: 0 }
  const digits = BigInt(text.slice(0, point) + text.slice(point + 1))
  return { digits, scale: text.length - point - 1 }
}

/**
 * Without an exponent and without trailing zeros: `2.5`, `0.75`, `100`.
 *
 * @param value of any sign
 */
export function decimalText({ digits, scale }: Decimal): string {
  if (scale === 0) return digits.toString()
  const negative = digits < 0n
  const padded = (negative ? -digits : digits).toString().padStart(scale + 1, '0')
  let end = padded.length
  while (end > padded.length - scale && padded.charCodeAt(end - 1) === 48) end--
  const integer = padded.slice(0, padded.length - scale)
  const fraction = padded.slice(padded.length - scale, end)
  return (negative ? '-' : '') + (fraction === '' ? integer : `${integer}.${fraction}`)
}

const plainText = /^\d+(?:\.\d+)?$/

/**
 * The same value without an exponent. A text without an exponent is returned unchanged (`1.00`).
 *
 * @param text a decimal of JSON, such as `1e-3`
 */
export function plain(text: string): string {
  if (plainText.test(text)) return text
  const value = decimal(text)
  return value === null ? text : decimalText(value)
}

function aligned(a: Decimal, b: Decimal): [bigint, bigint, number] {
  const scale = Math.max(a.scale, b.scale)
  return [
    a.digits * 10n ** BigInt(scale - a.scale),
    b.digits * 10n ** BigInt(scale - b.scale),
    scale,
  ]
}

/**
 * Below 0, 0 or above 0 as `a` is to `b`.
 *
 * @param a of any scale; 1.0 and 1.00 are equal
 * @param b likewise
 */
export function compare(a: Decimal, b: Decimal): number {
  const [left, right] = aligned(a, b)
  return left < right ? -1 : left > right ? 1 : 0
}

/**
 * The exact product.
 *
 * @param a of any scale
 * @param b of any scale; the scales are added
 */
export function times(a: Decimal, b: Decimal): Decimal {
  return { digits: a.digits * b.digits, scale: a.scale + b.scale }
}

/**
 * The exact sum.
 *
 * @param a of any scale
 * @param b of any scale; the result has the larger one
 */
export function plus(a: Decimal, b: Decimal): Decimal {
  const [left, right, scale] = aligned(a, b)
  return { digits: left + right, scale }
}

/**
 * The exact difference `a - b`, which may be negative.
 *
 * @param a of any scale
 * @param b of any scale; the result has the larger one
 */
export const minus = (a: Decimal, b: Decimal): Decimal =>
  plus(a, { digits: -b.digits, scale: b.scale })

/**
 * `a - b` of two decimal texts as decimal text, which may be negative; null: one of them is not a decimal.
 *
 * @param a a decimal without a sign, also with an exponent
 * @param b likewise
 */
export function difference(a: string, b: string): string | null {
  const left = decimal(a)
  const right = decimal(b)
  return left === null || right === null ? null : decimalText(minus(left, right))
}

/**
 * The quotient with `scale` fractional digits, rounded to the nearest.
 *
 * @param scale 0 or more
 * @throws RangeError if `by` is 0
 */
export function dividedBy(value: Decimal, by: Decimal, scale = 6): Decimal {
  const shift = scale - value.scale + by.scale
  const above = value.digits * (shift > 0 ? 10n ** BigInt(shift) : 1n)
  const below = by.digits * (shift < 0 ? 10n ** BigInt(-shift) : 1n)
  const half = above < 0n ? -below / 2n : below / 2n
  return { digits: (above + half) / below, scale }
}

/**
 * Millionths, rounded up: the lowest price with six fractional digits that is not below the value.
 *
 * @param value digits and a scale of 0 or more; not negative
 */
export function ceilMicros({ digits, scale }: Decimal): bigint {
  if (scale <= 6) return digits * 10n ** BigInt(6 - scale)
  const unit = 10n ** BigInt(scale - 6)
  return (digits + unit - 1n) / unit
}

/**
 * Millionths, rounded down.
 *
 * @param value digits and a scale of 0 or more; not negative
 */
export function floorMicros({ digits, scale }: Decimal): bigint {
  return scale <= 6 ? digits * 10n ** BigInt(6 - scale) : digits / 10n ** BigInt(scale - 6)
}

const power = [1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1]

/**
 * Exact millionths of a short plain text as a safe integer; -1: not possible.
 *
 * @param text plain decimal text without an exponent
 */
export function shortMicros(text: string): number {
  const { length } = text
  if (length === 0 || length > 15) return -1
  let value = 0
  let point = -1
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index)
    if (code === 46 && point === -1) point = index
    else if (code >= 48 && code <= 57) value = value * 10 + (code - 48)
    else return -1
  }
  const fraction = point === -1 ? 0 : length - point - 1
  if (fraction > 6 || point === 0 || (point !== -1 && fraction === 0)) return -1
  const micros = value * power[fraction]!
  return micros <= Number.MAX_SAFE_INTEGER ? micros : -1
}

/**
 * Millionths, rounded up, of a plain text with more than six fractional digits that has a digit other than 0 beyond the
 * sixth; -1: not possible.
 *
 * @param text without sign and exponent, of at most 40 characters
 */
export function ceiledShortMicros(text: string): number {
  const { length } = text
  const point = text.indexOf('.')
  if (point === -1 || length > 40) return -1
  const kept = point + 7
  const micros = length > kept ? shortMicros(text.slice(0, kept)) : -1
  if (micros === -1) return -1
  let isExact = true
  for (let index = kept; index < length; index++) {
    const code = text.charCodeAt(index)
    if (code < 48 || code > 57) return -1
    if (code !== 48) isExact = false
  }
  return isExact ? -1 : micros + 1
}

/**
 * Millionths as plain decimal text.
 *
 * @param micros a safe integer
 */
export function microsText(micros: number): string {
  // The text of a double is the shortest one that identifies it: with up to 15 digits, the decimal that was divided.
  if (micros < 1e15) return String(micros / 1e6)
  return bigMicrosText(BigInt(micros))
}

/**
 * Plain decimal text of millionths, which may be more than a safe integer.
 *
 * @param micros millionths, of any size and sign
 */
export function bigMicrosText(micros: bigint): string {
  return decimalText({ digits: micros, scale: 6 })
}
