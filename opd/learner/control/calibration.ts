/**
 * What lower prices lose, as verified. The model says what they should lose; by how much that is off is measured by comparing
 * bids that differ by chance alone: theta raised or lowered, sent lower or held at their own price. Where notices say the lowest
 * winning price, the loss is counted itself.
 */
import type { Column, Evidence, Union } from './kept.ts'

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
 * Prices are chosen where the model expects little loss, and so mostly where it expects too little: before anything is
 * measured, the true loss is taken to be this times the expected one, give or take the second.
 */
const [hopeful, unsure] = [1.4, 0.5]
/** By how much suppliers differ in that. */
const alike = 0.4
/** Expected wins before anything is measured of them. */
const few = 20
const [lowest, highest] = [-0.7, 6]
/** A smaller expected loss is taken for this. */
const leastLoss = 0.005

export type Kind = 'wins' | 'spend'
interface Columns {
  come: Column
  due: Column
  variance: Column
  dueIn: Column
  known: Column
  knownIn: Column
}
const columnsOf: Record<Kind, Columns> = {
  wins: {
    come: 'wins',
    due: 'due',
    variance: 'dueVariance',
    dueIn: 'dueIn',
    known: 'knownWins',
    knownIn: 'knownWinsIn',
  },
  spend: {
    come: 'spend',
    due: 'spendDue',
    variance: 'spendVariance',
    dueIn: 'spendIn',
    known: 'knownSpend',
    knownIn: 'knownSpendIn',
  },
}

/**
 * `all`: what was found of all suppliers together, where the evidence is of one: it has few bids to say otherwise, so what is
 * found of all counts as much as `alike`.
 */
export function lossError(
  evidence: Evidence,
  kind: Kind,
  into: LossError,
  all: LossError | null = null,
): LossError {
  Object.assign(into, all ?? unverified)
  const columns = columnsOf[kind]
  const base = evidence.total('deep', columns.dueIn)
  if (!(evidence.total('deep', 'due') > few && base > 0)) return into
  const loss = Math.max(leastLoss, 1 - evidence.total('deep', columns.due) / base)
  // True over expected loss, and how sure that is.
  let times = all === null ? hopeful : 1 + all.at
  let precision = 1 / (all === null ? unsure : alike) ** 2
  const measured = (found: number, deviation: number) => {
    if (!(deviation > 0 && Number.isFinite(found))) return
    times = times * precision + found / deviation ** 2
    precision += 1 / deviation ** 2
    times /= precision
  }
  const compare = (lower: Union, higher: Union) => {
    const [low, high] = [rates(evidence, columns, lower), rates(evidence, columns, higher)]
    const expected = 1 - low.due / high.due
    if (!(low.due > 0 && high.due > 0 && expected > leastLoss)) return
    const ratio = low.come / high.come
    // The variance that the model expects: that of a few wins, as counted, would be too small.
    measured((1 - ratio) / expected, Math.sqrt(low.variance + high.variance) / expected)
  }
  compare('lowered', 'raised')
  compare('deep', 'heldDeep')
  const count = evidence.total('deep', 'knownWinsIn') / (kind === 'wins' ? 1 : 2)
  if (count > few) {
    const share = evidence.total('deep', columns.known) / evidence.total('deep', columns.knownIn)
    const error = Math.sqrt((Math.max(1 - share, 1 / count) * share) / count)
    measured((1 - share) / loss, error / loss)
  }
  into.at = Math.max(lowest, Math.min(highest, times - 1))
  into.kept = Math.max(0.2, Math.min(1.2, 1 - loss * times))
  into.deviation = loss / Math.sqrt(precision)
  return into
}

/** Of one group, over what was expected at the bids' own prices: what came, what was expected, and its relative variance. */
function rates(evidence: Evidence, { come, due, variance, dueIn }: Columns, of: Union) {
  const base = evidence.total(of, dueIn)
  const sent = evidence.total(of, due)
  return {
    come: evidence.total(of, come) / base,
    due: sent / base,
    variance: evidence.total(of, variance) / sent ** 2,
  }
}

/**
 * Share of wins (spend) kept by the optimised: what came over what would have come at the bids' own prices. 1 before anything
 * came.
 */
export function keptBy(evidence: Evidence, kind: Kind, error: LossError): number {
  const { come, dueIn } = columnsOf[kind]
  const won = evidence.total('deep', come)
  const base = evidence.total('deep', dueIn)
  if (!(won > 0 && base > 0)) return 1
  const own = won / base / error.kept
  const flat = evidence.total('flat', come)
  const lower = own * (base + evidence.total('explored', dueIn))
  return (flat + won + evidence.total('explored', come)) / Math.max(1e-9, flat + lower)
}

/** Standard error of that share. */
export function keptError(evidence: Evidence, kind: Kind, error: LossError): number {
  const { come } = columnsOf[kind]
  const won = evidence.total('deep', come)
  const all = won + evidence.total('flat', come)
  return all > 0 ? (error.deviation * won) / all : unverified.deviation
}
