/**
 * Kept win rate, kept spend and uplift against the holdout, with confidence intervals that are valid at all times at once.
 * A dashboard is watched continuously: an interval for one fixed time would be wrong for a reader who stops at the first
 * good value.
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

interface Counts {
  bids: number
  wins: number
}

/** Sums of one arm, in one currency. `margin` is a sum over wins; so are its squares. */
export interface ArmTotals extends Counts {
  margin: number
  marginSquares: number
}
interface SpendTotals extends Counts {
  spend: number
  spendSquares: number
}
export type KeptTotals = ArmTotals & SpendTotals

/** Probability that the interval does not contain the value at some time. */
const alpha = 0.05
/**
 * Tuning of the mixture, in wins. The interval is narrowest at about nine times as many wins, and at most 10 % wider from
 * 700 to 100,000. With fewer wins it is much wider, which covers the error of the normal approximation.
 */
const tunedWins = 400

/** The variance of the estimate of one arm, and its number of wins. */
interface ArmVariance {
  variance: number
  wins: number
}

/**
 * Half of the width of the interval.
 *
 * @param miss probability that the interval does not contain the value, 0 to 1
 */
export function halfWidth(arms: readonly ArmVariance[], miss = alpha): number {
  let variance = 0
  let weighted = 0
  for (const arm of arms) {
    variance += arm.variance
    weighted += arm.variance ** 2 / arm.wins
  }
  if (!(variance > 0)) return 0
  const age = variance ** 2 / weighted / tunedWins
  return Math.sqrt(variance * (1 + 1 / age) * Math.log((1 + age) / miss ** 2))
}

const scaled = (center: number, half: number): Interval => ({
  at: center,
  lower: center * Math.exp(-half),
  upper: center * Math.exp(half),
})

/**
 * Relative variance of wins per bid, a lower bound of that of money per bid. One bid is added, because otherwise the
 * variance is 0 if all bids were won.
 */
const countVariance = ({ bids, wins }: Counts) => (1 - Math.min(1, wins / (bids + 1))) / wins

const bothWon = (treated: Counts, holdout: Counts) =>
  treated.wins > 0 && holdout.wins > 0 && treated.bids > 0 && holdout.bids > 0

/**
 * Win rate of treated bids divided by that of the holdout; null until both have a win.
 *
 * @param treated bids and wins whose price was lowered
 * @param holdout bids and wins at the own price
 */
export function keptWins(treated: Counts, holdout: Counts): Interval | null {
  if (!bothWon(treated, holdout)) return null
  const rate = ({ bids, wins }: Counts) => Math.min(1, wins / bids)
  const variance = (counts: Counts) => ({ variance: countVariance(counts), wins: counts.wins })
  return scaled(rate(treated) / rate(holdout), halfWidth([variance(treated), variance(holdout)]))
}

/**
 * Spend (in_ba of wins) per bid of treated bids divided by that of the holdout; null until both have a win.
 *
 * @param treated sums of CPM in the base currency
 * @param holdout the same of bids at the own price
 */
export function keptSpend(treated: SpendTotals, holdout: SpendTotals): Interval | null {
  if (!bothWon(treated, holdout) || !(treated.spend > 0) || !(holdout.spend > 0)) return null
  const mean = ({ bids, spend }: SpendTotals) => spend / bids
  const variance = (totals: SpendTotals): ArmVariance => ({
    variance: Math.max(
      countVariance(totals),
      (totals.spendSquares / totals.bids / mean(totals) ** 2 - 1) / totals.bids,
    ),
    wins: totals.wins,
  })
  return scaled(mean(treated) / mean(holdout), halfWidth([variance(treated), variance(holdout)]))
}

/**
 * Margin per bid of treated bids minus that of the holdout; null until both have a win.
 *
 * @param treated sums of bids that OPD priced, CPM in the base currency
 * @param holdout the same of bids at the own price
 */
export function uplift(treated: ArmTotals, holdout: ArmTotals): Interval | null {
  if (!bothWon(treated, holdout)) return null
  const mean = ({ bids, margin }: ArmTotals) => margin / bids
  const variance = (totals: ArmTotals): ArmVariance => {
    const measured = (totals.marginSquares / totals.bids - mean(totals) ** 2) / totals.bids
    return {
      variance: Math.max(mean(totals) ** 2 * countVariance(totals), measured),
      wins: totals.wins,
    }
  }
  const estimate = mean(treated) - mean(holdout)
  const half = halfWidth([variance(treated), variance(holdout)])
  return { at: estimate, lower: estimate - half, upper: estimate + half }
}
