/**
 * How a price that was explored speaks for another price. Exploration draws the factor from a density over what is
 * permitted, so no two factors are ever equal: an explored bid speaks for the evaluated factor f* where its own lies
 * within `reach` of it, weighted by
 *
 *   w = 1 / (P(explored) · density(f) · |B|),   B = [f* - reach, f* + reach] cut to [low, 1]
 *
 * which is the importance weight of the policy that prices uniformly within B. Only whether the bid was won is taken
 * from the match: money is counted at f* itself. What the win curve does within B is all the bias of IPS; doubly
 * robust takes that out too, as far as the model knows the curve.
 *
 * Where f* is the bid's own price the holdout speaks for it, exactly and with more bids: weight 1 / P(holdout).
 */
import type { DecisionLine } from './line.ts'

/** In factor: one 5 % tick of prices from end to end. */
export const reach = 0.025
const slack = 1e-9

export interface Match {
  /** Weight of a bid that speaks for f*; 0 for every other. */
  evaluated: number
  /** Weight of a holdout bid for factor 1; 0 for every other. */
  holdout: number
  /** Nothing that was explored can ever speak for this f*. */
  unsupported: boolean
}

/** Arms of a policy that draws: shadow, hold and what is outside of the share were not drawn from. */
export const drawn = (arm: string) => arm === 'holdout' || arm === 'explored' || arm === 'treated'

/** `holds`: the policy that logged keeps a holdout. */
export function match(line: DecisionLine, evaluated: number, holds: boolean): Match {
  const { arm, propensity, low } = line
  const from = Math.max(low, evaluated - reach)
  const to = Math.min(1, evaluated + reach)
  const width = to - from
  const holdout = arm === 'holdout' ? 1 / propensity : 0
  if (holds && evaluated >= 1 - slack) return { evaluated: holdout, holdout, unsupported: false }
  const unsupported = evaluated < low - slack || width <= slack
  if (arm !== 'explored' || unsupported) return { evaluated: 0, holdout, unsupported }
  const factor = Math.min(1, line.out / line.in)
  const density = line.density ?? 1 / (1 - low)
  const speaks = factor >= from - slack && factor <= to + slack && density > 0
  const weight = speaks ? 1 / (propensity * density * width) : 0
  return { evaluated: weight, holdout, unsupported }
}
