/**
 * Cleared prices as platforms write them: a decimal, a decimal in base64, or encrypted as by Google Authorized Buyers
 * (developers.google.com/authorized-buyers/rtb/response-guide/decrypt-price); converted to the currency of the bid.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { decimal, decimalText, dividedBy, times } from '../../opd/base/decimal.ts'
import { type ClearingConfig, clearingDefaults } from '../../opd/config.ts'
import { plainDecimal } from './notice.ts'

type ClearedPrice = { price: string } | { pointer: 'price' | 'cur'; detail: string }

const ivBytes = 16
const priceBytes = 8
const signatureBytes = 4

const hmac = (key: string, ...parts: Buffer[]) =>
  parts
    .reduce((hash, part) => hash.update(part), createHmac('sha1', Buffer.from(key, 'base64')))
    .digest()

/** The price is in millionths of the currency for one impression, a thousandth of the CPM. */
function decrypted(text: string, keys: { encryption: string; integrity: string }): string | null {
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length !== ivBytes + priceBytes + signatureBytes) return null
  const iv = bytes.subarray(0, ivBytes)
  const pad = hmac(keys.encryption, iv)
  const price = Buffer.from(bytes.subarray(ivBytes, ivBytes + priceBytes))
  for (let at = 0; at < priceBytes; at++) price[at]! ^= pad[at]!
  const signature = hmac(keys.integrity, price, iv).subarray(0, signatureBytes)
  if (!timingSafeEqual(signature, bytes.subarray(ivBytes + priceBytes))) return null
  return decimalText({ digits: price.readBigUInt64BE(), scale: 3 })
}

const base64 = /^[A-Za-z0-9+/_-]+={0,2}$/

function decoded(text: string, { encoding, keys }: ClearingConfig): string | null {
  if (encoding === 'plain') return text
  if (!base64.test(text)) return null
  const plain =
    encoding === 'google' ? decrypted(text, keys!) : Buffer.from(text, 'base64').toString('latin1')
  return plain !== null && plainDecimal(plain) ? plain : null
}

const faults = {
  plain: 'is not a plain decimal such as 1.25',
  base64: 'is not a plain decimal in base64, as clearing.encoding says',
  google: 'cannot be decrypted with clearing.keys',
} as const

/** `rateOf`: units of a currency for one unit of the base; null: not known. `bidCurrency` null: the bid is not known. */
export function clearedPrice(
  { price, currency }: { price: string; currency?: string | undefined },
  clearing: ClearingConfig = clearingDefaults,
  bidCurrency: string | null,
  rateOf: (currency: string) => number | null,
): ClearedPrice {
  const text = decoded(price, clearing)
  if (text === null || !plainDecimal(text))
    return { pointer: 'price', detail: `price ${faults[clearing.encoding]}` }
  const from = currency ?? clearing.currency ?? bidCurrency
  if (bidCurrency === null || from === null || from === bidCurrency) return { price: text }
  const [fromRate, toRate] = [rateOf(from), rateOf(bidCurrency)]
  if (fromRate === null || toRate === null)
    return { pointer: 'cur', detail: `there is no exchange rate from ${from} to ${bidCurrency}` }
  const inBid = times(decimal(text)!, decimal(String(toRate))!)
  return { price: decimalText(dividedBy(inBid, decimal(String(fromRate))!)) }
}
