/** Exact decimal arithmetic for signed sums of money from the database. */
export interface Exact {
  digits: bigint
  scale: number
}

export const zero: Exact = { digits: 0n, scale: 0 }

/** Parses a plain decimal as a database formats it. */
export function exact(text: string): Exact {
  const point = text.indexOf('.')
  if (point === -1) return { digits: BigInt(text), scale: 0 }
  const scale = text.length - point - 1
  return { digits: BigInt(text.slice(0, point) + text.slice(point + 1)), scale }
}

const at = ({ digits, scale }: Exact, wanted: number) => digits * 10n ** BigInt(wanted - scale)

export function plus(a: Exact, b: Exact): Exact {
  const scale = Math.max(a.scale, b.scale)
  return { digits: at(a, scale) + at(b, scale), scale }
}

export const minus = (a: Exact, b: Exact): Exact => plus(a, { digits: -b.digits, scale: b.scale })

/** Fractional digits of converted money. */
const converted = 6

/** Converts into the base currency; `rate` is units of the currency for one unit of the base. */
export function inBase(money: Exact, rate: number): Exact {
  if (rate === 1 || money.digits === 0n) return money
  const [whole = '', exponent = '0'] = rate.toExponential().split('e')
  const { digits: by, scale } = exact(whole)
  const byScale = scale - Number(exponent)
  // money / 10^scale / (by / 10^byScale), with `converted` digits
  const shift = converted - money.scale + byScale
  const above = money.digits * (shift > 0 ? 10n ** BigInt(shift) : 1n)
  const below = by * (shift < 0 ? 10n ** BigInt(-shift) : 1n)
  const half = above < 0n ? -below / 2n : below / 2n
  return { digits: (above + half) / below, scale: converted }
}

export function text({ digits, scale }: Exact): string {
  const sign = digits < 0n ? '-' : ''
  const padded = (digits < 0n ? -digits : digits).toString().padStart(scale + 1, '0')
  const whole = padded.slice(0, padded.length - scale)
  const fraction = padded.slice(padded.length - scale).replace(/0+$/, '')
  return sign + whole + (fraction === '' ? '' : `.${fraction}`)
}
