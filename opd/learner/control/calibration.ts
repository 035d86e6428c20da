/**
 * What lower prices lose, as verified. The wins of bids sent lower are counted; what they would have won at their own prices
 * is the model's expectation times a level, which the holdout bids measure that would have been sent lower. Where notices say the lowest winning price, the loss is counted itself.
 */
import type { Evidence } from './kept.ts'

export interface LossError {
  /** True loss = (1 + at) times what the model expects, over the bids sent lower. */
  at: number
  /** Share kept by the bids sent lower, and its standard deviation. */
  kept: number
  deviation: number
}

/** Before anything is verified. */
export const unverified: LossError = { at: 0.5, kept: 1, deviation: 0.02 }
/**
 * Before the holdout says more: prices are chosen where the model expects little loss, and so mostly where it expects too
 * little. The true loss is taken to be 1 + this times the expected one, give or take the second.
 */
const [hopeful, unsure] = [0.4, 0.5]
/** Expected wins before anything is measured of them. */
const few = 20
const [lowest, highest] = [-0.7, 6]
/** A smaller expected loss is taken for this. */
const leastLoss = 0.005

export type Kind = 'wins' | 'spend'
const columnsOf = {
  wins: ['wins', 'due', 'dueVariance', 'dueIn', 'knownWins', 'knownWinsIn'],
  spend: ['spend', 'spendDue', 'spendVariance', 'spendIn', 'knownSpend', 'knownSpendIn'],
} as const

export function lossError(evidence: Evidence, kind: Kind, into: LossError): LossError {
  Object.assign(into, unverified)
  const [come, due, variance, dueIn, known, knownIn] = columnsOf[kind]
  const base = evidence.get('deep', dueIn)
  if (!(evidence.get('deep', 'due') > few && base > 0)) return into
  const came = evidence.get('deep', come)
  const sent = evidence.get('deep', due)
  const loss = Math.max(leastLoss, 1 - sent / base)
  // What the model is off by at the price sent, it is mostly off by at the bid's own as well.
  let level = (came / sent) * (1 + hopeful * loss)
  let precision = 1 / (unsure * loss) ** 2
  const held = evidence.get('heldDeep', due)
  if (held > 0) {
    const noise = evidence.get('heldDeep', variance) / held ** 2
    level = level * precision + evidence.get('heldDeep', come) / held / noise
    precision += 1 / noise
    level /= precision
  }
  let kept = came / base / Math.max(0.1, level)
  let deviation = kept / Math.max(0.1, level) / Math.sqrt(precision)
  if (evidence.get('deep', 'knownWinsIn') > few) {
    const share = evidence.get('deep', known) / evidence.get('deep', knownIn)
    const count = evidence.get('deep', 'knownWinsIn') / (kind === 'wins' ? 1 : 2)
    const error = (Math.max(1 - share, 1 / count) * share) / count
    const [one, other] = [1 / deviation ** 2, 1 / error]
    kept = (kept * one + share * other) / (one + other)
    deviation = 1 / Math.sqrt(one + other)
  }
  into.at = Math.max(lowest, Math.min(highest, (1 - kept) / loss - 1))
  into.kept = Math.max(0.2, Math.min(1.2, kept))
  into.deviation = deviation
  return into
}

/**
 * Share of wins (spend) kept by the optimised: what came over what would have come at the bids' own prices. 1 before anything
 * came.
 */
export function keptBy(evidence: Evidence, kind: Kind, error: LossError): number {
  const [come, , , dueIn] = columnsOf[kind]
  const won = evidence.get('deep', come)
  const base = evidence.get('deep', dueIn)
  if (!(won > 0 && base > 0)) return 1
  const own = won / base / error.kept
  const flat = evidence.get('flat', come)
  const lower = own * (base + evidence.get('explored', dueIn))
  return (flat + won + evidence.get('explored', come)) / Math.max(1e-9, flat + lower)
}

/** Standard error of that share. */
export function keptError(evidence: Evidence, kind: Kind, error: LossError): number {
  const [come] = columnsOf[kind]
  const won = evidence.get('deep', come)
  const all = won + evidence.get('flat', come)
  return all > 0 ? (error.deviation * won) / all : unverified.deviation
}
