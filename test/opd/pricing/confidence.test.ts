/** Intervals that hold however often one looks: their coverage under continuous peeking, and how narrow they are. */
import t from 'tap'
import {
  halfWidth,
  type Interval,
  keptSpend,
  keptWins,
  uplift,
} from '../../../opd/shared/confidence.ts'
import { source } from '../../support/random.ts'

const arm = () => ({ bids: 0, wins: 0, margin: 0, marginSquares: 0, spend: 0, spendSquares: 0 })
type Arm = ReturnType<typeof arm>

interface World {
  holdout: number
  rate: number
  kept: number
  /** Log standard deviation of in_ba. */
  spread: number
}

/** Runs of `bids` bids, looked at after every one: the share of runs whose interval was ever wrong. */
function missed(
  { holdout, rate, kept, spread }: World,
  runs: number,
  bids: number,
  look: (treated: Arm, control: Arm) => Interval | null,
  truth: number,
): number {
  let wrong = 0
  for (let run = 0; run < runs; run++) {
    const random = source(run + 1)
    const arms = [arm(), arm()] as const
    for (let n = 0; n < bids; n++) {
      const control = random() < holdout
      const into = arms[control ? 1 : 0]
      into.bids++
      const inBa = Math.exp(
        spread * Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random()),
      )
      if (random() < (control ? rate : rate * kept)) {
        const margin = control ? 0 : inBa * 0.1
        into.wins++
        into.margin += margin
        into.marginSquares += margin ** 2
        into.spend += inBa
        into.spendSquares += inBa ** 2
      }
      const seen = look(...arms)
      if (seen !== null && (seen.lower > truth || seen.upper < truth)) {
        wrong++
        break
      }
    }
  }
  return wrong / runs
}

const usual = { holdout: 0.03, rate: 0.4, kept: 0.97, spread: 0.6 }
/** Two standard errors of 200 runs above 5 %. */
const allowed = 0.05 + 2 * Math.sqrt((0.05 * 0.95) / 200)
const worlds: Readonly<Record<string, World>> = {
  usual,
  'rare wins': { ...usual, rate: 0.02 },
  'half and half': { ...usual, holdout: 0.5 },
  'heavy tails': { ...usual, spread: 1.2 },
}
for (const [name, world] of Object.entries(worlds))
  t.test(
    `an interval that is read after every bid is wrong in at most 5 % of runs: ${name}`,
    (t) => {
      const share = (look: Parameters<typeof missed>[3], truth: number) =>
        missed(world, 200, 6000, look, truth)
      const mean = Math.exp(world.spread ** 2 / 2)
      t.ok(share(keptWins, world.kept) <= allowed, 'kept wins')
      t.ok(share(keptSpend, world.kept) <= allowed, 'kept spend')
      t.ok(share(uplift, 0.1 * mean * world.rate * world.kept) <= allowed, 'uplift')
      t.end()
    },
  )

t.test('an interval for a single look is wrong more often if it is read often', (t) => {
  const naive = (treated: Arm, control: Arm): Interval | null => {
    if (treated.wins < 30 || control.wins < 30) return null
    const [one, other] = [treated.wins / treated.bids, control.wins / control.bids]
    const half = 1.96 * Math.sqrt((1 - one) / treated.wins + (1 - other) / control.wins)
    const estimate = one / other
    return { at: estimate, lower: estimate * Math.exp(-half), upper: estimate * Math.exp(half) }
  }
  t.ok(missed({ ...usual, holdout: 0.5 }, 200, 6000, naive, usual.kept) > 0.15)
  t.end()
})

t.test(
  'from 700 wins on, the interval is at most 1.8 times as wide as one for a single look',
  (t) => {
    for (const wins of [700, 5000, 50_000, 200_000]) {
      const half = halfWidth([{ variance: 1 / wins, wins }])
      t.ok(half < 1.8 * 1.96 * Math.sqrt(1 / wins), `${wins} wins`)
    }
    const bids = 1_000_000
    const kept = keptWins({ bids, wins: 388_000 }, { bids: bids * 0.03, wins: 12_000 })!
    t.equal(kept.at.toFixed(3), '0.970')
    t.ok(kept.upper - kept.lower < 0.06, `${kept.lower}, ${kept.upper}`)
    t.end()
  },
)

t.test('no uplift before both arms have won, and never NaN', (t) => {
  const some = {
    ...arm(),
    bids: 10,
    wins: 1,
    margin: 1,
    marginSquares: 1,
    spend: 1,
    spendSquares: 1,
  }
  for (const [one, other] of [
    [arm(), arm()],
    [some, arm()],
    [arm(), some],
    [some, { ...arm(), bids: 10 }],
  ] as const)
    for (const look of [keptWins, keptSpend, uplift]) t.equal(look(one, other), null)
  // late notices of bids before a restart: more wins than bids
  for (const look of [keptWins, keptSpend, uplift]) {
    const seen = look({ ...some, bids: 1, wins: 3 }, some)!
    t.ok([seen.at, seen.lower, seen.upper].every(Number.isFinite))
  }
  t.equal(keptWins({ bids: 5, wins: 5 }, { bids: 5, wins: 5 })!.at, 1)
  t.end()
})
