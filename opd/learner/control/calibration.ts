/**
 * The wins and the spend that lower prices lose. The model expects a loss; the true loss is a multiple of it. What is known of the
 * multiple before (its mean and spread over markets) is combined with a measurement: of the bids that the model would lower, some
 * keep their own price by chance. The wins of both, each over the wins that the model expected of them, show what is lost.
 * Where notices have the lowest winning price, the loss itself is counted as well.
 */
import type { Column, Evidence } from './evidence.ts'

/** The true loss over the expected loss, estimated, and the standard deviation of the estimate. */
export interface Multiple {
  mean: number
  deviation: number
}

/** Before anything is measured. */
const before: Multiple = { mean: 1.1, deviation: 0.5 }
/** Standard deviation of the multiple between suppliers, and between the present and the past. */
const alike = 0.2
/** With fewer expected wins nothing is measured. */
const few = 20
/** Bounds of a multiple. */
const [lowest, highest] = [0.2, 7]
/** Lowered bids keep at least this share of wins. */
const leastKept = 0.1
/** A smaller expected loss is not measured. */
const leastLoss = 0.002

/** The found loss and the wins at own prices depend on each other: so often each is computed from the other. */
const passes = 4

export const unmeasured = (): Multiple => ({ ...before })

export type Kind = 'wins' | 'spend'
type Columns = Record<
  'due' | 'dueIn' | 'weighedCome' | 'weighedDue' | 'weighedIn' | 'variance' | 'known' | 'knownIn',
  Column
>
const columnsOf: Record<Kind, Columns> = {
  wins: {
    due: 'due',
    dueIn: 'dueIn',
    weighedCome: 'weighedWins',
    weighedDue: 'weighedDue',
    weighedIn: 'weighedDueIn',
    variance: 'weighedVariance',
    known: 'knownWins',
    knownIn: 'knownWinsIn',
  },
  spend: {
    due: 'spendDue',
    dueIn: 'spendIn',
    weighedCome: 'weighedSpend',
    weighedDue: 'weighedSpendDue',
    weighedIn: 'weighedSpendIn',
    variance: 'weighedSpendVariance',
    known: 'knownSpend',
    knownIn: 'knownSpendIn',
  },
}

/** `all`: the multiple of all suppliers, where that of one supplier begins. */
export function measureLoss(
  evidence: Evidence,
  kind: Kind,
  into: Multiple,
  all: Multiple | null = null,
): void {
  const columns = columnsOf[kind]
  into.mean = all?.mean ?? before.mean
  into.deviation =
    all === null ? before.deviation : Math.hypot(all.deviation, alike * Math.max(1, all.mean))
  if (!(evidence.total('lowered', 'due') > few)) return
  const start = { ...into }
  for (let pass = 0; pass < passes; pass++) {
    const measured = compared(evidence, columns, into.mean)
    Object.assign(into, start)
    combine(into, measured)
  }
  const known = counted(evidence, columns, kind)
  if (known === null) return
  const due = evidence.total('optimised', columns.dueIn)
  combine(into, { expected: 1 - evidence.total('optimised', columns.due) / due, ...known })
}

interface Measured {
  /** The expected loss, the loss that was found, and its standard deviation. */
  expected: number
  found: number
  deviation: number
}

/** Combines a multiple with a measurement, each weighted by its precision. */
function combine(multiple: Multiple, measured: Measured | null): void {
  if (measured === null) return
  const { expected, found, deviation } = measured
  if (!(deviation > 0 && expected > leastLoss && Number.isFinite(found))) return
  const prior = 1 / multiple.deviation ** 2
  const now = (expected / deviation) ** 2
  const mean = (multiple.mean * prior + (found / expected) * now) / (prior + now)
  multiple.mean = mean < lowest ? lowest : mean > highest ? highest : mean
  multiple.deviation = 1 / Math.sqrt(prior + now)
}

/**
 * The loss of lowered bids, of which `multiple` is known so far. What they would have won at their own prices, over what the model
 * expects, is shown by those that kept their price by chance. Bids that keep their price because it is best do not show it: the model errs about them by other shares, .08
 * on average over markets drawn at random, more than the loss that is measured.
 */
function compared(evidence: Evidence, columns: Columns, multiple: number): Measured | null {
  const low = rates(evidence, columns, 'lowered', columns.weighedDue)
  const high = rates(evidence, columns, 'compared', columns.weighedIn)
  const come = low.come + high.come
  if (!(low.due > 0 && high.due > 0 && come > 0)) return null
  const keeps = low.due / evidence.total('lowered', columns.weighedIn)
  // The variance is the one that the model expects, because that of a few counted wins would be too small. Lost notices raise it.
  const reported = Math.min(1, come / (low.due + high.due))
  // Wins at own prices, as both groups show them with the loss that is known so far. A quotient by the wins of held bids alone,
  // which are few, would find too little.
  const kept = Math.max(1 - multiple * (1 - keeps), leastKept)
  const level = come / (high.due + (low.due * kept) / keeps)
  return {
    expected: 1 - keeps,
    found: (high.come / high.due - (keeps * low.come) / low.due) / level,
    deviation: Math.sqrt((keeps ** 2 * low.variance + high.variance) / reported),
  }
}

function rates(evidence: Evidence, union: Columns, group: 'lowered' | 'compared', dueAs: Column) {
  const due = evidence.total(group, dueAs)
  const come = evidence.total(group, union.weighedCome)
  return { come, due, variance: evidence.total(group, union.variance) / due ** 2 }
}

/** The loss itself, counted where notices have the lowest winning price. null: too few have it. */
function counted(
  evidence: Evidence,
  { known, knownIn }: Columns,
  kind: Kind,
): { found: number; deviation: number } | null {
  const count = evidence.total('optimised', 'knownWinsIn') / (kind === 'wins' ? 1 : 2)
  if (!(count > few)) return null
  const share = evidence.total('optimised', known) / evidence.total('optimised', knownIn)
  const deviation = Math.sqrt((Math.max(1 - share, 1 / count) * share) / count)
  return { found: 1 - share, deviation }
}
