/**
 * Matches explored bids with evaluated prices. Exploration draws the factor from a density over the permitted factors, so no
 * two factors are equal: an explored bid is evidence for the evaluated factor f* if its own factor is within `reach` of f*.
 * Its weight is
 *
 *   w = 1 / (P(explored) · density(f) · |B|),   B = [f* - reach, f* + reach] cut to [low, 1]
 *
 * the importance weight of the policy that prices uniformly within B. Only the outcome (won or not) is taken from the
 * match; money is counted at f*. The slope of the win curve within B is the only bias of IPS; the doubly robust estimate
 * removes it as far as the model knows the curve.
 *
 * If f* is 1, the holdout is the evidence, exactly and with more bids: weight 1 / P(holdout).
 */
import type { DecisionLine } from './line.ts'

/** Half the width of B, in factor: B spans a 5 % step of prices. */
export const reach = 0.025
const slack = 1e-9

export interface Match {
  /** Weight of a bid that is evidence for f*; 0 for every other. */
  evaluated: number
  /** Weight of a holdout bid for factor 1; 0 for every other. */
  holdout: number
  /** No explored bid can be evidence for this f*. */
  unsupported: boolean
}

/** Arms that are assigned at random. Bids in shadow, on hold or outside of the share are not. */
export const isRandomized = (arm: string) =>
  arm === 'holdout' || arm === 'explored' || arm === 'treated'

/** `hasHoldout`: the policy that was logged has a holdout. */
export function match(line: DecisionLine, evaluated: number, hasHoldout: boolean): Match {
  const { arm, propensity, low } = line
  const from = Math.max(low, evaluated - reach)
  const to = Math.min(1, evaluated + reach)
  const width = to - from
  const holdout = arm === 'holdout' ? 1 / propensity : 0
  if (hasHoldout && evaluated >= 1 - slack)
    return { evaluated: holdout, holdout, unsupported: false }
  const unsupported = evaluated < low - slack || width <= slack
  if (arm !== 'explored' || unsupported) return { evaluated: 0, holdout, unsupported }
  const factor = Math.min(1, line.out / line.in)
  const density = line.density ?? 1 / (1 - low)
  const matches = factor >= from - slack && factor <= to + slack && density > 0
  const weight = matches ? 1 / (propensity * density * width) : 0
  return { evaluated: weight, holdout, unsupported }
}
