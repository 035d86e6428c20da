/** Computes in_ba and out_ba from price, client fee, floor and factor (CONTRACT 4.4, 4.5). */
import {
  bigMicrosText,
  ceiledShortMicros,
  ceilMicros,
  compare,
  type Decimal,
  decimal,
  decimalText,
  floorMicros,
  microsText,
  plain,
  shortMicros,
  times,
} from '../base/decimal.ts'

/** The amounts of one bid, before a factor is chosen. */
export interface Amounts {
  /** in_ba as a plain decimal; without a fee, the price as it was sent. */
  inText: string
  in: number
  /** The price of the bid as a plain decimal. */
  priceText: string
  /** in_ba is not above the floor, so the price stays unchanged. */
  atFloor: boolean
  /** The price itself, before the client fee, is below the floor: the bid cannot win. */
  belowFloor: boolean
  /** Whether in_ba is below the price. */
  fee: boolean
  /** Millionths of in_ba if they are exact and a safe integer, else -1. */
  micros: number
  /** Millionths of the floor, rounded up, if they are a safe integer, else -1. */
  floorMicros: number
  inExact: Decimal | null
  floorExact: Decimal | null
}

const one: Decimal = { digits: 1n, scale: 0 }

/** The share of a price after the client fee, exactly: a fee of 0.1 leaves 0.9. null: no fee. */
export function keptShareOf(clientFee: number): Decimal | null {
  const fee = decimal(String(clientFee))
  if (fee === null || fee.digits === 0n) return null
  return { digits: 10n ** BigInt(fee.scale) - fee.digits, scale: fee.scale }
}

const exactFloor = (floor: number, floorText: string | undefined): Decimal =>
  decimal(floorText ?? String(floor)) ?? decimal(String(floor)) ?? { digits: 0n, scale: 0 }

export function amounts(
  priceText: string,
  price: number,
  floor: number,
  floorText: string | undefined,
  keptShare: Decimal | null,
): Amounts {
  if (keptShare === null) {
    const micros = shortMicros(priceText)
    const text = floor === 0 ? '0' : (floorText ?? String(floor))
    let least = shortMicros(text)
    // Rounded up, the floor is above its exact value, and a price of that many millionths is above the floor.
    const isRounded = least === -1
    if (isRounded) least = ceiledShortMicros(text)
    if (micros !== -1 && least !== -1)
      return {
        inText: priceText,
        in: price,
        priceText,
        atFloor: isRounded ? micros < least : micros <= least,
        belowFloor: micros < least,
        fee: false,
        micros,
        floorMicros: least,
        inExact: null,
        floorExact: null,
      }
  }
  const floorExact = exactFloor(floor, floorText)
  const base = decimal(priceText) ?? decimal(String(price)) ?? one
  const inExact = keptShare === null ? base : times(base, keptShare)
  const text = plain(priceText)
  const inText = keptShare === null ? text : decimalText(inExact)
  return {
    inText,
    in: keptShare === null ? price : Number(inText),
    priceText: text,
    atFloor: compare(inExact, floorExact) <= 0,
    belowFloor: compare(base, floorExact) < 0,
    fee: keptShare !== null,
    micros: -1,
    floorMicros: -1,
    inExact,
    floorExact,
  }
}

/**
 * out_ba as text; null: it equals the price of the bid. It is rounded up to six fractional digits, towards in_ba and away
 * from the floor, and is never above in_ba. The tolerance of 1e-12 keeps 0.9 * 0.9 at 0.81; it stays below a millionth, so
 * that a high price at factor 1 is not lowered.
 */
export function applyFactor(amounts: Amounts, factor: number): string | null {
  if (amounts.micros === -1) return applyFactorExactly(amounts, factor)
  const exact = amounts.micros * factor
  const target = Math.ceil(exact - Math.min(exact * 1e-12, 0.25))
  const out = target > amounts.floorMicros ? target : amounts.floorMicros
  return out >= amounts.micros ? null : microsText(out)
}

const factorDigits = 12

function applyFactorExactly(amounts: Amounts, factor: number): string | null {
  const inExact = amounts.inExact!
  const floor = amounts.floorExact!
  const share = { digits: BigInt(Math.round(factor * 10 ** factorDigits)), scale: factorDigits }
  const target = ceilMicros(times(inExact, share))
  const least = ceilMicros(floor)
  const out = target > least ? target : least
  if (compare({ digits: out, scale: 6 }, inExact) < 0) return bigMicrosText(out)
  if (!amounts.fee) return null
  // out_ba is in_ba, which is below the price. Six digits are kept if that stays above the floor.
  const rounded = floorMicros(inExact)
  const keepsFloor = rounded > 0n && compare({ digits: rounded, scale: 6 }, floor) >= 0
  return keepsFloor ? bigMicrosText(rounded) : amounts.inText
}
