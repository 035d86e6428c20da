/**
 * What optimised bids keep and gain against the holdout, with intervals that hold at any time one looks: a dashboard is
 * watched, and an interval made for one look is wrong for somebody who stops at the first pleasant one.
 *
 * Asymptotic confidence sequences: Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas, "Time-uniform central limit theory and
 * asymptotic confidence sequences", Annals of Statistics 52 (2024), theorem 2.2; the boundary is Robbins' normal
 * mixture (1970). Ratios on the logarithmic scale by the delta method, two samples pooled by Welch and Satterthwaite.
 */

export interface Interval {
  at: number
  lower: number
  upper: number
}

/** Sums of one arm. `margin` and `spend` are sums over wins, in one currency; the squares are summed win by win. */
export interface ArmTotals {
  bids: number
  wins: number
  margin: number
  marginSquares: number
}
interface SpendTotals {
  bids: number
  wins: number
  spend: number
  spendSquares: number
}

/** Probability that the interval ever misses. */
const alpha = 0.05
/**
 * Wins that the mixture is tuned by: narrowest at about nine times as many, and no more than 10 % wider from 700 to
 * 100,000. With fewer it is much wider, which also covers what the normal approximation gets wrong there.
 */
const tuned = 400

/** One arm's part: the variance of its estimate, and the wins that it rests on. */
interface Part {
  variance: number
  wins: number
}

/** Half width, valid for all times together. */
export function radius(parts: readonly Part[], miss = alpha): number {
  let variance = 0
  let weighted = 0
  for (const part of parts) {
    variance += part.variance
    weighted += part.variance ** 2 / part.wins
  }
  if (!(variance > 0)) return 0
  const age = variance ** 2 / weighted / tuned
  return Math.sqrt(variance * (1 + 1 / age) * Math.log((1 + age) / miss ** 2))
}

const scaled = (at: number, half: number): Interval => ({
  at,
  lower: at * Math.exp(-half),
  upper: at * Math.exp(half),
})

/**
 * Relative variance of wins per bid: what money per bid varies by at least. One bid more than there were, or the
 * first bid, won, would have none.
 */
const ofCount = ({ bids, wins }: { bids: number; wins: number }) =>
  (1 - Math.min(1, wins / (bids + 1))) / wins

const wonBoth = (treated: { bids: number; wins: number }, holdout: typeof treated) =>
  treated.wins > 0 && holdout.wins > 0 && treated.bids > 0 && holdout.bids > 0

/** Win rate of the optimised over that of the holdout; null before both have won. */
export function keptWins(
  treated: Pick<ArmTotals, 'bids' | 'wins'>,
  holdout: Pick<ArmTotals, 'bids' | 'wins'>,
): Interval | null {
  if (!wonBoth(treated, holdout)) return null
  const rate = ({ bids, wins }: typeof treated) => Math.min(1, wins / bids)
  const part = (of: typeof treated): Part => ({ variance: ofCount(of), wins: of.wins })
  return scaled(rate(treated) / rate(holdout), radius([part(treated), part(holdout)]))
}

/** Spend (wins weighted by in_ba) per bid of the optimised over that of the holdout; null before both have won. */
export function keptSpend(treated: SpendTotals, holdout: SpendTotals): Interval | null {
  if (!wonBoth(treated, holdout) || !(treated.spend > 0) || !(holdout.spend > 0)) return null
  const mean = ({ bids, spend }: SpendTotals) => spend / bids
  const part = (of: SpendTotals): Part => ({
    variance: Math.max(ofCount(of), (of.spendSquares / of.bids / mean(of) ** 2 - 1) / of.bids),
    wins: of.wins,
  })
  return scaled(mean(treated) / mean(holdout), radius([part(treated), part(holdout)]))
}

/** Margin per bid of the optimised less that of the holdout; null before both have won. */
export function uplift(treated: ArmTotals, holdout: ArmTotals): Interval | null {
  if (!wonBoth(treated, holdout)) return null
  const mean = ({ bids, margin }: ArmTotals) => margin / bids
  const part = (of: ArmTotals): Part => {
    const seen = (of.marginSquares / of.bids - mean(of) ** 2) / of.bids
    return { variance: Math.max(mean(of) ** 2 * ofCount(of), seen), wins: of.wins }
  }
  const at = mean(treated) - mean(holdout)
  const half = radius([part(treated), part(holdout)])
  return { at, lower: at - half, upper: at + half }
}
