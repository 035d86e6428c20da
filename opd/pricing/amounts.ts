/** From a bid's price, the client fee, a floor and a factor to in_ba and out_ba (CONTRACT 4.4, 4.5). */
import {
  bigMicrosText,
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
} from '../shared/decimal.ts'

/** One bid's money before a factor is chosen. */
export interface Amounts {
  /** in_ba: without a fee the very value sent, as a plain decimal. */
  inText: string
  in: number
  /** The bid's price as it stands, as a plain decimal. */
  priceText: string
  /** in_ba is not above the floor: the price stays. */
  atFloor: boolean
  /** Whether in_ba is below the price. */
  fee: boolean
  /** Millionths of in_ba where that is exact and safe, else -1. */
  micros: number
  /** Millionths of the floor, rounded up, where safe, else -1. */
  floorMicros: number
  inExact: Decimal | null
  floorExact: Decimal | null
}

const one: Decimal = { digits: 1n, scale: 0 }

/** What is left of a price after the fee, exactly: 0.1 leaves 0.9. null: no fee. */
export function keepOf(clientFee: number): Decimal | null {
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
  keep: Decimal | null,
): Amounts {
  if (keep === null) {
    const micros = shortMicros(priceText)
    const least = floor === 0 ? 0 : shortMicros(floorText ?? String(floor))
    if (micros !== -1 && least !== -1)
      return {
        inText: priceText,
        in: price,
        priceText,
        atFloor: micros <= least,
        fee: false,
        micros,
        floorMicros: least,
        inExact: null,
        floorExact: null,
      }
  }
  const floorExact = exactFloor(floor, floorText)
  const whole = decimal(priceText) ?? decimal(String(price)) ?? one
  const inExact = keep === null ? whole : times(whole, keep)
  const text = plain(priceText)
  const inText = keep === null ? text : decimalText(inExact)
  return {
    inText,
    in: keep === null ? price : Number(inText),
    priceText: text,
    atFloor: compare(inExact, floorExact) <= 0,
    fee: keep !== null,
    micros: -1,
    floorMicros: -1,
    inExact,
    floorExact,
  }
}

/**
 * out_ba as text, or null where it equals the bid's price. Rounded up to six digits, which is towards
 * in_ba and away from the floor; never above in_ba. The slack of 1e-12 keeps 0.9 * 0.9 at 0.81.
 */
export function lowered(amounts: Amounts, factor: number): string | null {
  if (amounts.micros === -1) return exactlyLowered(amounts, factor)
  const target = Math.ceil(amounts.micros * factor * (1 - 1e-12))
  const out = target > amounts.floorMicros ? target : amounts.floorMicros
  return out >= amounts.micros ? null : microsText(out)
}

const factorDigits = 12

function exactlyLowered(amounts: Amounts, factor: number): string | null {
  const inExact = amounts.inExact!
  const floor = amounts.floorExact!
  const share = { digits: BigInt(Math.round(factor * 10 ** factorDigits)), scale: factorDigits }
  const target = ceilMicros(times(inExact, share))
  const least = ceilMicros(floor)
  const out = target > least ? target : least
  if (compare({ digits: out, scale: 6 }, inExact) < 0) return bigMicrosText(out)
  if (!amounts.fee) return null
  // in_ba itself, below the price: six digits where they stay between the floor and in_ba
  const cut = floorMicros(inExact)
  const keepsFloor = cut > 0n && compare({ digits: cut, scale: 6 }, floor) >= 0
  return keepsFloor ? bigMicrosText(cut) : amounts.inText
}
