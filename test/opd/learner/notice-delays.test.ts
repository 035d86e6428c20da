/** How long notices take, from the first ones on. */
import * as fc from 'fast-check'
import t from 'tap'
import { NoticeDelays } from '../../../opd/learner/train/notice-delays.ts'
import { SentCounts } from '../../../opd/learner/train/sent-counts.ts'
import { source } from '../../support/random.ts'

type Draw = (random: () => number) => number
const normal: Draw = (random) =>
  Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random())
const logNormal =
  (median: number, sigma: number): Draw =>
  (random) =>
    median * Math.exp(sigma * normal(random))
const exponential =
  (mean: number): Draw =>
  (random) =>
    -mean * Math.log(random())
/** A fast half, and a slow one. */
const two =
  (quick: number, slow: number): Draw =>
  (random) =>
    random() < 0.5 ? logNormal(quick, 0.3)(random) : logNormal(slow, 0.3)(random)

interface Traffic {
  /** Milliseconds between bids, and of all of it. */
  every: number
  until: number
  delay: (now: number) => Draw
  /** What wins, and what was expected to. */
  rate?: (now: number) => number
  expected?: number
}
const start = 1e12

function learned({ every, until, delay, rate = () => 0.3, expected = 0.3 }: Traffic): NoticeDelays {
  const delays = new NoticeDelays()
  const random = source(5)
  const notices: [number, number][] = []
  for (let time = 0; time < until; time += every)
    if (random() < rate(time)) {
      const age = delay(time)(random)
      if (time + age < until) notices.push([time + age, age])
    }
  notices.sort(([one], [other]) => one - other)
  let next = 0
  for (let now = 0; now < until; now += every) {
    for (; next < notices.length && notices[next]![0] <= now; next++)
      delays.received(notices[next]![1], start + notices[next]![0])
    delays.exposed(expected, start + now)
  }
  return delays
}
/** The share of notices that has truly come where the curve says that `share` has. */
function truly(delays: NoticeDelays, draw: Draw, share: number): number {
  const random = source(9)
  const age = delays.age(share)
  let below = 0
  for (let n = 0; n < 20_000; n++) if (draw(random) <= age) below++
  return below / 20_000
}
const shares = [0.1, 0.3, 0.5, 0.7, 0.9]

const shapes: [string, Draw, number][] = [
  ['seconds', logNormal(8000, 0.8), 8000],
  ['a minute', logNormal(60_000, 0.8), 60_000],
  ['exponential', exponential(15_000), 15_000],
  ['half quick, half slow', two(2000, 30_000), 30_000],
  ['at once', logNormal(200, 0.5), 200],
]
for (const [name, draw, median] of shapes)
  t.test(`known when three medians have passed, at any rate: ${name}`, (t) => {
    for (const every of [1, 50]) {
      // As many notices; what they say is as sure as these are many.
      const until = Math.max(20_000, 3 * median) * (every === 1 ? 1 : 5)
      const delays = learned({ every, until, delay: () => draw })
      for (const share of shares) {
        const quantile = truly(delays, draw, share)
        t.ok(
          Math.abs(quantile - share) < (every === 1 ? 0.08 : 0.12),
          `${every} ms: ${quantile} for ${share}`,
        )
      }
    }
    t.end()
  })

t.test('a few quick notices do not make the estimated delay short', (t) => {
  // A third of the median has passed: one notice in fourteen can have come.
  const draw = logNormal(8000, 0.8)
  const delays = learned({ every: 0.5, until: 3000, delay: () => draw })
  for (const share of shares) {
    const quantile = truly(delays, draw, share)
    t.ok(Math.abs(quantile - share) < 0.25, `${quantile} for ${share}`)
  }
  t.end()
})

t.test('bids that win less than before are no change of delays', (t) => {
  const draw = logNormal(8000, 0.8)
  const rate = (now: number) => (now < 20_000 ? 0.8 : 0.2)
  const delays = learned({ every: 1, until: 45_000, delay: () => draw, rate })
  for (const share of shares) {
    const quantile = truly(delays, draw, share)
    t.ok(Math.abs(quantile - share) < 0.06, `${quantile} for ${share}`)
  }
  t.end()
})

t.test('the estimate follows delays that grow', (t) => {
  const until = 4 * 3_600_000
  const delay = (now: number) => logNormal(8000 * 20 ** Math.min(1, now / until / 0.7), 0.6)
  const delays = learned({ every: 500, until, delay })
  for (const share of shares) {
    const quantile = truly(delays, delay(until), share)
    t.ok(Math.abs(quantile - share) < 0.12, `${quantile} for ${share}`)
  }
  t.end()
})

t.test('a restart restores the delays; a damaged state is ignored', (t) => {
  const draw = logNormal(40_000, 0.5)
  const delays = learned({ every: 20, until: 200_000, delay: () => draw })
  const again = new NoticeDelays()
  again.restoreDelays(delays.saved())
  for (const target of [delays, again]) target.exposed(0, start + 200_001)
  for (const share of shares)
    t.ok(Math.abs(Math.log(again.age(share) / delays.age(share))) < 0.1, `${share}`)
  const fresh = new NoticeDelays()
  const usual = fresh.age(0.5)
  for (const state of [[], [1000, 2000], [-1, 0, 1], [-1, ...Array<number>(500).fill(-3)]]) {
    fresh.restoreDelays(Float64Array.from(state))
    t.equal(fresh.age(0.5), usual)
  }
  t.end()
})

t.test('nothing is known until the next notice where what was known no longer holds', (t) => {
  const delays = learned({ every: 10, until: 60_000, delay: () => logNormal(5000, 0.5) })
  delays.forget()
  t.equal(delays.age(0.01), Number.POSITIVE_INFINITY)
  delays.received(300_000, start + 400_000)
  t.ok(delays.age(0.5) < Number.POSITIVE_INFINITY)
  t.end()
})

t.test('the number of bids sent until a time is known to a twentieth of its age', (t) => {
  const sent = new SentCounts()
  for (let now = 0; now < 3_600_000; now += 7) sent.addCount(1, start + now)
  for (const ago of [0, 50, 1000, 30_000, 600_000, 3_000_000]) {
    const truth = (3_600_000 - ago) / 7
    t.ok(
      Math.abs(sent.until(start + 3_600_000 - ago) - truth) * 7 <= ago / 20 + 20,
      `${ago} ms ago`,
    )
  }
  t.equal(sent.until(start - 1), 0)
  t.end()
})

t.test('for any clock, sums never fall, and ages rise with their share', (t) => {
  const clock = fc.oneof(fc.integer({ min: 0, max: 2e12 }), fc.integer({ min: 0, max: 1e5 }))
  fc.assert(
    fc.property(
      fc.array(fc.tuple(clock, fc.integer({ min: 0, max: 1e7 }), fc.boolean())),
      (steps) => {
        const delays = new NoticeDelays()
        for (const [now, age, won] of steps)
          if (won) delays.received(age, now)
          else delays.exposed(0.5, now)
        let last = 0
        for (let share = 0; share < 1; share += 0.05) {
          const age = delays.age(share)
          if (!(age >= last && age < Number.POSITIVE_INFINITY)) return false
          last = age
        }
        return true
      },
    ),
    { numRuns: 200 },
  )
  t.end()
})
