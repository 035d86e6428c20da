/** Buckets of times: each time is in the classic bucket and in the native bucket that its value asks for. */
import t from 'tap'
import { DurationBuckets } from '../../../opd/base/buckets.ts'
import { bounds } from '../../../proxy/metrics.ts'
import { source } from '../../support/random.ts'

const buckets = new DurationBuckets(bounds)

/** The counts of one time. */
function countsOf(seconds: number): Float64Array {
  const counts = new Float64Array(buckets.cells)
  counts[buckets.cellOf(seconds)]!++
  return counts
}

const classicOf = (seconds: number) => buckets.classic(countsOf(seconds)).indexOf(1)

t.test('a time on a bound is in the bucket that ends there', async (t) => {
  for (const [bucket, bound] of bounds.entries()) {
    t.equal(classicOf(bound), bucket, `${bound}`)
    t.equal(classicOf(bound * (1 + 1e-12)), bucket + 1, `just above ${bound}`)
  }
  t.equal(classicOf(0), 0)
  t.equal(classicOf(1e9), bounds.length)
  t.equal(classicOf(Number.POSITIVE_INFINITY), bounds.length)
})

t.test('a native bucket has the times between its bounds, an eighth of a doubling', async (t) => {
  const next = source(7)
  for (let n = 0; n < 20_000; n++) {
    const seconds = 2 ** (-15 + 20 * next())
    const { schema, zeroCount, first, counts } = buckets.native(countsOf(seconds))
    const [lower, upper] = [2 ** ((first - 1) / 2 ** schema), 2 ** (first / 2 ** schema)]
    if (zeroCount > 0 || counts.length !== 1 || seconds <= lower || seconds > upper)
      t.fail(`${seconds} is not in (${lower}, ${upper}]`)
  }
  for (const seconds of [2 ** -14, 0.25, 1, 16]) {
    const { schema, first } = buckets.native(countsOf(seconds))
    t.equal(2 ** (first / 2 ** schema), seconds, 'a bound is in the bucket that ends there')
  }
})

t.test('times below 31 us are in the zero bucket, those above 32 s in the last one', async (t) => {
  for (const seconds of [0, 1e-9, 2 ** -15])
    t.match(buckets.native(countsOf(seconds)), { zeroCount: 1, counts: [] })
  for (const seconds of [32, 33, 1e6, Number.POSITIVE_INFINITY])
    t.match(buckets.native(countsOf(seconds)), { zeroCount: 0, first: 40, counts: [1] })
  t.match(buckets.native(new Float64Array(buckets.cells)), { zeroCount: 0, counts: [] })
})
