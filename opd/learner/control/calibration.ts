/**
 * The wins and the spend that lower prices lose. The model expects a loss. The true loss is a multiple of it, measured by
 * comparing groups of bids that differ by chance alone: with the usual theta, with a raised one, and the holdout. Where notices
 * have the lowest winning price, the loss itself is counted as well.
 */
import type { Column, Evidence, Union } from './evidence.ts'

/** The true loss over the expected loss, estimated, and the standard deviation of the estimate. */
interface Multiple {
  at: number
  deviation: number
}
export interface Losses {
  /** Of the loss with a raised theta, and of the further loss with the usual theta. */
  raised: Multiple
  further: Multiple
  /** Share of wins (spend) that optimized bids keep, and its standard deviation. */
  kept: number
  deviation: number
  /** The multiple for auctions with the usual theta. */
  usual: number
}

/**
 * Before anything is measured. Prices are chosen where the model expects little loss, which is mostly where it expects too
 * little of it, the more so the lower the price.
 */
const [raisedBefore, furtherBefore] = [
  { at: 1, deviation: 0.5 },
  { at: 1.8, deviation: 0.5 },
]
/** Standard deviation of the multiple between suppliers. */
const alike = 0.4
/** With fewer expected wins nothing is measured. */
const few = 20
/** Bounds of a multiple. */
const [lowest, highest] = [0.2, 7]
/** A smaller expected loss counts as this one. */
const leastLoss = 0.002

export const unverified = (): Losses => ({
  raised: { ...raisedBefore },
  further: { ...furtherBefore },
  kept: 1,
  deviation: 0.02,
  usual: furtherBefore.at,
})

type Kind = 'wins' | 'spend'
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

/**
 * `all`: the losses of all suppliers together, if the evidence is of one supplier. It has few bids, so its estimate begins at
 * that of all suppliers, with the deviation `alike`.
 */
export function measureLosses(
  evidence: Evidence,
  kind: Kind,
  into: Losses,
  all: Losses | null = null,
): void {
  const columns = columnsOf[kind]
  begin(into.raised, all?.raised, raisedBefore)
  begin(into.further, all?.further, furtherBefore)
  into.kept = 1
  into.deviation = all?.deviation ?? unverified().deviation
  into.usual = into.further.at
  const base = evidence.total('optimised', columns.dueIn)
  if (!(evidence.total('optimised', 'due') > few && base > 0)) return
  measure(into.raised, compared(evidence, columns, 'raised', 'holdout'))
  measure(into.further, compared(evidence, columns, 'usual', 'raised'))
  const lossOf = (of: Union) => {
    const due = evidence.total(of, columns.dueIn)
    return due > 0 ? Math.max(leastLoss, 1 - evidence.total(of, columns.due) / due) : leastLoss
  }
  const [raised, usual, loss] = [lossOf('raised'), lossOf('usual'), lossOf('optimised')]
  const further = Math.max(0, usual - raised)
  const known = counted(evidence, columns, kind)
  if (known !== null) {
    // The count is of all optimized bids, so both multiples are updated.
    measure(into.raised, { expected: loss, ...known })
    measure(into.further, { expected: loss, ...known })
  }
  into.usual = (into.raised.at * Math.min(raised, usual) + into.further.at * further) / usual
  const share = evidence.total('usual', columns.dueIn) / base
  // Explored bids lose what usual ones do.
  const rest = Math.max(0, loss - raised * (1 - share))
  into.kept = Math.max(0.2, 1 - into.raised.at * raised * (1 - share) - into.usual * rest)
  into.deviation = Math.hypot(
    into.raised.deviation * Math.min(raised, loss),
    into.further.deviation * Math.max(0, loss - raised),
  )
}

function begin(into: Multiple, all: Multiple | undefined, before: Multiple): void {
  into.at = all?.at ?? before.at
  into.deviation = all === undefined ? before.deviation : alike * Math.max(1, all.at)
}

interface Measured {
  /** The expected loss, the loss that was found, and its standard deviation. */
  expected: number
  found: number
  deviation: number
}

/** Combines a multiple with a measurement, each weighted by its precision. */
function measure(multiple: Multiple, measured: Measured | null): void {
  if (measured === null) return
  const { expected, found, deviation } = measured
  if (!(deviation > 0 && expected > leastLoss && Number.isFinite(found))) return
  const before = 1 / multiple.deviation ** 2
  const now = (expected / deviation) ** 2
  const at = (multiple.at * before + (found / expected) * now) / (before + now)
  multiple.at = at < lowest ? lowest : at > highest ? highest : at
  multiple.deviation = 1 / Math.sqrt(before + now)
}

/** The loss of one group against another. Both are relative to the wins expected at the bids' own prices. */
function compared(
  evidence: Evidence,
  columns: Columns,
  lower: Union,
  higher: Union,
): Measured | null {
  const [low, high] = [rates(evidence, columns, lower), rates(evidence, columns, higher)]
  if (!(low.due > 0 && high.due > 0)) return null
  // The variance is the one that the model expects, because that of a few counted wins would be too small. Lost notices raise it.
  const reported = Math.min(1, (low.come + high.come) / (low.due + high.due))
  return {
    expected: 1 - low.due / high.due,
    found: 1 - low.come / high.come,
    deviation: Math.sqrt((low.variance + high.variance) / reported),
  }
}

function rates(evidence: Evidence, of: Columns, group: Union) {
  const base = evidence.total(group, of.weighedIn)
  const due = evidence.total(group, of.weighedDue)
  return {
    come: evidence.total(group, of.weighedCome) / base,
    due: due / base,
    variance: evidence.total(group, of.variance) / due ** 2,
  }
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
