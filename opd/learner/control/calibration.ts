/**
 * What lower prices lose, as verified. The model estimates it; the error of the estimate is measured by comparing bids that
 * differ by chance alone: sent with the usual theta or a raised one, or at their own price (holdout). Where notices have the
 * lowest winning price, the loss itself is counted.
 */
import type { Column, Evidence, Union } from './kept.ts'

/** True loss over what the model expects, as estimated; and its standard deviation. */
interface Times {
  at: number
  deviation: number
}
export interface Losses {
  /** Of the auctions with theta raised; and of what those with the usual theta lose more. */
  raised: Times
  further: Times
  /** Share of wins (spend) that the optimised keep, and its standard deviation. */
  kept: number
  deviation: number
  /** True over expected loss of the auctions with the usual theta. */
  usual: number
}

/**
 * Before anything is measured: prices are chosen where the model expects little loss, and so mostly where it expects too
 * little, the more so the lower they are.
 */
const [raisedBefore, furtherBefore] = [
  { at: 1, deviation: 0.5 },
  { at: 1.8, deviation: 0.5 },
]
/** By how much suppliers differ. */
const alike = 0.4
/** Expected wins before anything is measured of them. */
const few = 20
const [lowest, highest] = [0.2, 7]
/** A smaller expected loss is taken for this. */
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
 * `all`: what was found for all suppliers together, if the evidence is of one. One supplier has few bids, so its estimate
 * begins at that of all, with the deviation `alike`.
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
    // It is of all bids together, so it counts for both.
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

function begin(into: Times, all: Times | undefined, before: Times): void {
  into.at = all?.at ?? before.at
  into.deviation = all === undefined ? before.deviation : alike * Math.max(1, all.at)
}

interface Measured {
  /** Of the loss that is expected, what was found, and the standard deviation. */
  expected: number
  found: number
  deviation: number
}

function measure(times: Times, measured: Measured | null): void {
  if (measured === null) return
  const { expected, found, deviation } = measured
  if (!(deviation > 0 && expected > leastLoss && Number.isFinite(found))) return
  const before = 1 / times.deviation ** 2
  const now = (expected / deviation) ** 2
  const at = (times.at * before + (found / expected) * now) / (before + now)
  times.at = at < lowest ? lowest : at > highest ? highest : at
  times.deviation = 1 / Math.sqrt(before + now)
}

/** What one group loses against the other, each over what was expected at the bids' own prices. */
function compared(
  evidence: Evidence,
  columns: Columns,
  lower: Union,
  higher: Union,
): Measured | null {
  const [low, high] = [rates(evidence, columns, lower), rates(evidence, columns, higher)]
  if (!(low.due > 0 && high.due > 0)) return null
  // The variance that the model expects: that of a few wins, as counted, would be too small. The fewer notices come, the larger.
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

/** The loss itself, where notices have the lowest winning price. */
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
