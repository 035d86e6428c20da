/** The figures of a node for the console, made of what it has counted: on the thread that answers consoles. */
import type {
  FunnelFigures,
  ModeFigures,
  NodeFigures,
  SupplierFigures,
  VariantFigures,
} from '../admin/fleet/figures.ts'
import { createSlices } from '../opd/base/slices.ts'
import { ArmSums, factorBounds } from '../opd/pricing/stats.ts'
import { guards, modes } from '../opd/shared/arms.ts'
import { bidReasons, responseReasons } from '../opd/shared/reasons.ts'
import { bounds, outcomes } from '../proxy/metrics.ts'
import { armFields, type NodeCounts, statuses, type VariantCounts } from './node-counts.ts'

type Counts = Record<string, number>

// names of properties: a number would be written out at each access
const durationNames = [...bounds, Number.POSITIVE_INFINITY].map(String)
const factorNames = [...factorBounds, Number.POSITIVE_INFINITY].map(String)

/** Reads numbers in the order in which they were packed. */
class Unpacker {
  private readonly numbers: Float64Array
  private position = 0

  constructor(numbers: Float64Array) {
    this.numbers = numbers
  }

  next(): number {
    return this.numbers[this.position++]!
  }

  /** The next ones that are positive, by name. */
  named(names: readonly string[]): Counts {
    const result: Counts = {}
    for (const name of names) {
      const count = this.next()
      if (count > 0) result[name] = count
    }
    return result
  }

  sums(): ArmSums {
    const sums = new ArmSums()
    for (const field of armFields) sums[field] = this.next()
    return sums
  }
}

function funnelOf(numbers: Unpacker, notices: Counts): FunnelFigures {
  const next = () => Math.max(0, numbers.next())
  const [decided, noMacro, cleared, clearedLow, left] = [next(), next(), next(), next(), next()]
  return { decided, noMacro, notices, cleared, clearedLow, left }
}

/** null: the mode is neither configured nor has it priced a bid. `left`: bids by reason, to which those of the mode are added. */
function modeFigures(numbers: Unpacker, left: Counts): ModeFigures | null {
  const isUsed = numbers.next() > 0
  for (const [reason, bids] of Object.entries(numbers.named(bidReasons)))
    left[reason] = (left[reason] ?? 0) + bids
  const figures = {
    ...{ bids: numbers.next(), wins: numbers.next(), margin: numbers.next() },
    ...{ revenue: numbers.next(), optimised: numbers.sums(), holdout: numbers.sums() },
    factors: numbers.named(factorNames),
  }
  const guard = guards[numbers.next()]
  const alarms = numbers.named(guards)
  return isUsed ? { ...figures, guards: guard === undefined ? {} : { [guard]: 1 }, alarms } : null
}

function variantOf({ requests, durations, bids, prices }: VariantCounts): VariantFigures {
  return {
    requests: new Unpacker(requests).named(outcomes),
    durations: new Unpacker(durations).named(durationNames),
    ...{ bids, prices },
  }
}

function supplierFigures(
  numbers: Unpacker,
  { window }: NodeCounts,
): Omit<SupplierFigures, 'endpoints'> {
  const [awaited, qps] = [numbers.next(), numbers.next()]
  const notices = numbers.named(statuses)
  const requests = numbers.named(outcomes)
  const durations = numbers.named(durationNames)
  const funnel = funnelOf(numbers, numbers.named(statuses))
  const left = numbers.named(responseReasons)
  const used: SupplierFigures['modes'] = {}
  for (const mode of modes) {
    const figures = modeFigures(numbers, left)
    if (figures !== null) used[mode] = figures
  }
  const rate = Object.values(requests).reduce((sum, count) => sum + count, 0) / window
  return {
    ...{ requests, durations, funnel, awaited, rate, modes: used, left, notices },
    qps: Number.isNaN(qps) ? null : qps,
  }
}

/**
 * The figures of all suppliers, in time slices: a node without the thread makes them itself.
 *
 * @param counts of one node
 */
export async function figuresOf(counts: NodeCounts): Promise<NodeFigures> {
  const { ids, numbers, endpoints, variants, ...node } = counts
  const slices = createSlices()
  const unpacker = new Unpacker(numbers)
  const suppliers: NodeFigures['suppliers'] = {}
  for (const [index, id] of ids.entries()) {
    const both = variants.get(id)
    suppliers[id] = {
      ...supplierFigures(unpacker, counts),
      endpoints: endpoints[index]!,
      ...(both && { variants: { main: variantOf(both.main), canary: variantOf(both.canary) } }),
    }
    await slices.next()
  }
  return { ...node, suppliers }
}
