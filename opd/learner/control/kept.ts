/**
 * What is known of kept wins, kept spend and margin: wins as they came beside what the model expected of the same bids.
 * Sums alone, so nodes add what others saw: a win may be reported to any node.
 */

import { type Exposure, shareStep } from '../exposure.ts'
import { floatsAt, viewOf, writeFloats } from '../frame.ts'

/** How a bid went out: with theta lowered or raised, at a drawn price, or, held out, at its own. */
const groups = ['usual', 'raised', 'explored', 'held'] as const
type Group = (typeof groups)[number]
const groupAt = positions(groups)
/** Groups that are summed together, by their positions. */
const unions = {
  usual: [0],
  raised: [1],
  optimised: [0, 1, 2],
  holdout: [3],
  all: [0, 1, 2, 3],
} as const satisfies Record<string, readonly number[]>
export type Union = keyof typeof unions

function positions<Name extends string>(names: readonly Name[]) {
  return Object.fromEntries(names.map((name, at) => [name, at])) as Record<Name, number>
}

/** The sums of one group. Money is CPM. */
const columns = [
  'bids',
  'wins',
  'spend',
  /** Expected wins and spend at the price sent, and at the bid's own. */
  'due',
  'spendDue',
  'dueIn',
  'spendIn',
  'margin',
  'marginDue',
  /**
   * The same with weights, and the variance of what is expected. Spend by the root of a price: a few dear bids would be all
   * that counts.
   */
  'weighedWins',
  'weighedDue',
  'weighedDueIn',
  'weighedVariance',
  'weighedSpend',
  'weighedSpendDue',
  'weighedSpendIn',
  'weighedSpendVariance',
  /** Of bids whose lowest winning price is known: won at the price sent, and at the bid's own. */
  'knownWins',
  'knownWinsIn',
  'knownSpend',
  'knownSpendIn',
] as const
export type Column = (typeof columns)[number]
const at = positions(columns)
const width = columns.length
export const evidenceWidth = groups.length * width

/**
 * Bids that the sums remember: at first the later part, since the errors of a cold model are not those of a warm one, and at
 * most these: how far the model is off moves by a third in 30,000 bids where the market drifts.
 */
const horizon = 25_000
const [youngest, ofAge] = [400, 0.6]

/** One bid: its prices, what the model expected at its own price and at the one sent, and its weight in comparisons. */
type Expected = Pick<Exposure, 'inBa' | 'sent' | 'winIn' | 'winOut' | 'weight'>

export class Evidence {
  readonly sums = new Float64Array(evidenceWidth)
  /** Since the last delta. */
  readonly fresh = new Float64Array(evidenceWidth)
  /** Bids ever. */
  age = 0
  private readonly scale: number

  /** `scale`: how much longer than one supplier it remembers. */
  constructor(scale = 1) {
    this.scale = scale
  }

  private add(base: number, name: Column, value: number): void {
    const column = base + at[name]
    this.sums[column]! += value
    this.fresh[column]! += value
  }

  /** `sign` -1 takes one back. */
  exposed(group: Group, { inBa, sent, winIn, winOut, weight }: Expected, sign: 1 | -1 = 1): void {
    const base = groupAt[group] * width
    const due = winOut * sign
    const dueIn = winIn * sign
    const variance = due * (1 - winOut)
    this.add(base, 'bids', sign)
    this.add(base, 'due', due)
    this.add(base, 'spendDue', due * inBa)
    this.add(base, 'dueIn', dueIn)
    this.add(base, 'spendIn', dueIn * inBa)
    this.add(base, 'marginDue', due * (inBa - sent))
    const money = weight * Math.sqrt(inBa)
    this.add(base, 'weighedDue', due * weight)
    this.add(base, 'weighedDueIn', dueIn * weight)
    this.add(base, 'weighedVariance', variance * weight * weight)
    this.add(base, 'weighedSpendDue', due * money)
    this.add(base, 'weighedSpendIn', dueIn * money)
    this.add(base, 'weighedSpendVariance', variance * money * money)
    this.age += sign
    this.fade()
  }

  won(group: Group, inBa: number, paid: number, weight: number): void {
    const base = groupAt[group] * width
    this.add(base, 'wins', 1)
    this.add(base, 'spend', inBa)
    this.add(base, 'margin', inBa - paid)
    this.add(base, 'weighedWins', weight)
    this.add(base, 'weighedSpend', weight * Math.sqrt(inBa))
  }

  /** The lowest winning price of a bid became known; it counts for so many bids. */
  knew(group: Group, inBa: number, sent: number, least: number, times = 1): void {
    if (least > inBa) return
    const base = groupAt[group] * width
    this.add(base, 'knownWinsIn', times)
    this.add(base, 'knownSpendIn', times * inBa)
    if (least > sent) return
    this.add(base, 'knownWins', times)
    this.add(base, 'knownSpend', times * inBa)
  }

  private fade(): void {
    const most = Math.min(horizon * this.scale, youngest + ofAge * this.age)
    let bids = 0
    for (let n = 0; n < evidenceWidth; n += width) bids += this.sums[n]!
    const excess = bids / most
    // in steps, not at every bid
    if (excess <= 1.01) return
    for (let n = 0; n < evidenceWidth; n++) this.sums[n]! /= excess
  }

  /** What another node saw; it is not sent on. */
  merge(sums: Float64Array): void {
    for (let n = 0; n < evidenceWidth; n++) this.sums[n]! += sums[n]!
    for (let n = 0; n < evidenceWidth; n += width) this.age += sums[n]!
    this.fade()
  }

  restore(sums: readonly number[], age: number): void {
    this.sums.set(sums)
    this.age = age
  }

  total(of: Union, name: Column): number {
    return totalOf(this.sums, of, name)
  }

  reset(): void {
    this.sums.fill(0)
  }
}

export function totalOf(sums: Float64Array, of: Union, name: Column): number {
  let sum = 0
  for (const group of unions[of]) sum += sums[group * width + at[name]]!
  return sum
}

/** An exposure, as far as it matters here. */
export type Outcome = Omit<Exposure, 'ticket' | 'supplier' | 'second' | 'lnIn'>

/** ln of a factor above which a bid left at its own price. */
const own = -1e-3
/**
 * What an exposure is evidence of. One held up by shadow, hold or share went out at another price than was decided: it is
 * evidence of nothing.
 */
export function groupOf({ arm, raised, lnF, winIn, winOut }: Outcome): Group | null {
  if (arm === 'holdout') return 'held'
  if (lnF >= own && winOut < winIn - 2 * shareStep) return null
  return arm === 'explored' ? 'explored' : raised ? 'raised' : 'usual'
}

/**
 * Sums by supplier, as deltas carry them:
 *
 *   supplier  sums
 *   4         8 x 84
 */
const recordBytes = 4 + 8 * evidenceWidth

export function writeRecords(records: readonly (readonly [number, Float64Array])[]): Uint8Array {
  const bytes = new Uint8Array(records.length * recordBytes)
  for (const [n, [supplier, sums]] of records.entries()) {
    viewOf(bytes).setUint32(n * recordBytes, supplier)
    writeFloats(bytes, n * recordBytes + 4, sums)
  }
  return bytes
}

/** What is no record, or holds a number that is none, is left out. */
export function* readRecords(bytes: Uint8Array): Generator<[number, Float64Array]> {
  for (let at = 0; at + recordBytes <= bytes.length; at += recordBytes) {
    const sums = floatsAt(bytes, at + 4, evidenceWidth)
    if (sums.every(Number.isFinite)) yield [viewOf(bytes).getUint32(at), sums]
  }
}
