import t from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import { opdSchema } from '../../../opd/config.ts'
import { rewriteInSlices } from '../../../opd/rewrite/rewrite.ts'
import type { PriceBid } from '../../../opd/shared/reasons.ts'
import { matchPlaceholders } from '../../support/placeholders.ts'
import { vectors } from '../../support/vectors.ts'

let contexts = 0
/** Lowers every price that may be lowered by a fifth, as far as the floor allows. */
const fifthOff: PriceBid = ({ price, floor, priceText, rate }) => {
  const out = rate === null || price <= floor ? price : Math.max(floor, price * 0.8)
  const changed = out !== price
  const text = changed ? String(Math.ceil(out * 1e6 - 1e-6) / 1e6) : null
  return {
    priceText: text,
    inText: BigInt(Math.round(price)).toString() === priceText ? priceText : String(price),
    outText: text ?? (/e/i.test(priceText) ? String(price) : priceText),
    context: `ctx${contexts++}`,
    mode: 'revenue',
  }
}

for (const vector of vectors)
  t.test(`${vector.id}: ${vector.title}`, (t) => {
    const body = vector.responseBase64
      ? Buffer.from(vector.responseBase64, 'base64')
      : Buffer.from(vector.response!)
    const out = drained(
      rewriteInSlices({
        body,
        request: () => Buffer.from(vector.request),
        opd: opdSchema.parse({ enabled: vector.opdEnabled }),
        inactiveSeats: new Set(),
        rates: null,
        base: 'USD',
        price: fifthOff,
      }),
    )
    if (vector.expected === 'unchanged') t.equal(out.body, body, 'the very Buffer')
    else {
      const matched = matchPlaceholders(vector.expected, out.body.toString())
      t.ok(typeof matched !== 'string', typeof matched === 'string' ? matched : 'matches')
    }
    t.end()
  })
