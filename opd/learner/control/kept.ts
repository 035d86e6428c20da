/**
 * What is known of kept wins, kept spend and margin: wins as they came beside what the model expected of the same bids.
 * Sums alone, so nodes add what others saw: a win may be told to any node.
 */

/**
 * How a bid went out: at its own price, below it, at a drawn price; and holdout bids by how they would have gone out.
 * `beside` is `deep` once more, remembered for as long as the holdout: what the model is off by at all prices moves by
 * the hour, and two means over other hours would tell that for a difference between prices.
 */
const groups = ['flat', 'deep', 'explored', 'heldFlat', 'heldDeep', 'beside'] as const
export type Group = (typeof groups)[number]
const groupAt = { flat: 0, deep: 1, explored: 2, heldFlat: 3, heldDeep: 4, beside: 5 } as const

/** The sums of one group. Money is CPM, depth as `depthOf` has it. */
const columns = [
  'bids',
  'wins',
  'spend',
  /** Expected wins and spend at the price sent, and their variance. */
  'due',
  'spendDue',
  'dueVariance',
  'spendVariance',
  /** Expected at the bid's own price. */
  'dueIn',
  'spendIn',
  'margin',
  'marginDue',
  /** Moments of depth: of what came, and of what was expected. */
  'winsDepth',
  'spendDepth',
  'dueDepth',
  'spendDueDepth',
  'dueDepths',
  'spendDueDepths',
] as const
type Column = (typeof columns)[number]
const at = Object.fromEntries(columns.map((name, index) => [name, index])) as Record<Column, number>
const width = columns.length
const evidenceWidth = groups.length * width
/** Optimised groups come first. */
const heldFrom = groupAt.heldFlat * width
const heldTo = groupAt.beside * width
/** What nodes tell each other: `beside` is told by `deep`. */
export const toldWidth = heldTo

/**
 * Bids that the sums remember: at first the later half, since what a cold model was wrong by says nothing of a warm one,
 * and at most these. The holdout's are few, and remembered for long.
 */
const horizons = [25_000, 40_000] as const
const [youngest, ofAge] = [400, 0.5]

/** One bid: what the model expected of it, at its own price and at the one sent. */
export interface Seen {
  inBa: number
  sent: number
  winIn: number
  winSent: number
}

export class Evidence {
  readonly sums = new Float64Array(evidenceWidth)
  /** Since the last delta. */
  readonly fresh = new Float64Array(evidenceWidth)
  /** Bids ever: optimised, holdout. */
  readonly ages = new Float64Array(2)
  private readonly scale: number

  /** `scale`: how much longer than one supplier it remembers. */
  constructor(scale = 1) {
    this.scale = scale
  }

  private add(base: number, name: Column, value: number): void {
    this.sums[base + at[name]]! += value
    this.fresh[base + at[name]]! += value
  }

  /** `weight` -1 takes one back. */
  exposed(group: Group, seen: Seen, weight: 1 | -1 = 1): void {
    if (group === 'deep') this.expect('beside', seen, weight)
    this.expect(group, seen, weight)
    const side = groupAt[group] * width < heldFrom ? 0 : 1
    this.ages[side]! += weight
    this.fade(side)
  }

  private expect(group: Group, { inBa, sent, winIn, winSent }: Seen, weight: 1 | -1): void {
    const base = groupAt[group] * width
    const depth = depthOf(inBa, sent)
    const due = winSent * weight
    const variance = due * (1 - winSent)
    this.add(base, 'bids', weight)
    this.add(base, 'due', due)
    this.add(base, 'spendDue', due * inBa)
    this.add(base, 'dueVariance', variance)
    this.add(base, 'spendVariance', variance * inBa * inBa)
    this.add(base, 'dueIn', winIn * weight)
    this.add(base, 'spendIn', winIn * inBa * weight)
    this.add(base, 'marginDue', due * (inBa - sent))
    this.add(base, 'dueDepth', due * depth)
    this.add(base, 'dueDepths', due * depth * depth)
    this.add(base, 'spendDueDepth', due * inBa * depth)
    this.add(base, 'spendDueDepths', due * inBa * depth * depth)
  }

  won(group: Group, inBa: number, sent: number, paid: number): void {
    if (group === 'deep') this.won('beside', inBa, sent, paid)
    const base = groupAt[group] * width
    const depth = depthOf(inBa, sent)
    this.add(base, 'wins', 1)
    this.add(base, 'spend', inBa)
    this.add(base, 'margin', inBa - paid)
    this.add(base, 'winsDepth', depth)
    this.add(base, 'spendDepth', inBa * depth)
  }

  private fade(side: 0 | 1): void {
    const [from, to] = side === 0 ? [0, heldFrom] : [heldFrom, heldTo]
    const horizon = Math.min(horizons[side] * this.scale, youngest + ofAge * this.ages[side]!)
    let bids = 0
    for (let n = from; n < to; n += width) bids += this.sums[n]!
    const excess = bids / horizon
    // in steps, not at every bid
    if (excess <= 1.01) return
    const end = side === 0 ? to : evidenceWidth
    for (let n = from; n < end; n++) this.sums[n]! /= excess
  }

  /** What another node saw, or this one before a restart, then with its ages; it is not sent on. */
  merge(sums: Float64Array, ages?: readonly number[]): void {
    const beside = sums.length > heldTo ? heldTo : groupAt.deep * width
    for (let n = 0; n < heldTo; n++) this.sums[n]! += sums[n]!
    for (let n = 0; n < width; n++) this.sums[heldTo + n]! += sums[beside + n]!
    if (ages !== undefined) for (const side of [0, 1]) this.ages[side]! += ages[side] ?? 0
    else for (let n = 0; n < heldTo; n += width) this.ages[n < heldFrom ? 0 : 1]! += sums[n]!
    this.fade(0)
    this.fade(1)
  }

  get(group: Group, name: Column): number {
    return this.sums[groupAt[group] * width + at[name]]!
  }

  /** Over the optimised, or over the holdout. */
  total(side: 'optimised' | 'holdout', name: Column): number {
    const [from, to] = side === 'optimised' ? [0, heldFrom] : [heldFrom, heldTo]
    let sum = 0
    for (let n = from; n < to; n += width) sum += this.sums[n + at[name]]!
    return sum
  }

  reset(): void {
    this.sums.fill(0)
  }
}

/**
 * What the model is wrong by grows with depth, but less and less: d / (1 + 3.3 d), d = ln(in / out), and ln by its
 * approximant. Measured on two markets; 0 at the bid's own price, .12 at a factor of .8.
 */
export const depthOf = (inBa: number, sent: number) =>
  sent < inBa ? (2 * (inBa - sent)) / (7.6 * inBa - 5.6 * sent) : 0

/** Sums of other nodes, of both sides. */
export function heard(sums: Float64Array, name: 'bids' | 'due' | 'dueIn' | 'wins'): number {
  let sum = 0
  for (let n = 0; n < heldTo; n += width) sum += sums[n + at[name]]!
  return sum
}
