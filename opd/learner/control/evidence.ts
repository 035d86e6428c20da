/**
 * The evidence of kept wins, kept spend and margin: wins, beside the wins that the model expected of the same bids. It consists
 * of sums, so that nodes can add each other's: a win may be reported to any node.
 */
import { type Exposure, shareStep } from '../exposure.ts'
import { floatsAt, viewOf, writeFloats } from '../frame.ts'

/**
 * How the price of a bid was chosen: lowered, random, its own price because it was best, its own price although a lower one was
 * best (held), or its own price in the holdout.
 */
const groups = ['lowered', 'explored', 'own', 'held', 'holdout'] as const
export type Group = (typeof groups)[number]
const groupAt = positions(groups)
/** Groups that are summed together, by their positions. */
const unions = {
  lowered: [0],
  /** Bids whose price shows what a lower price loses. */
  tried: [0, 1],
  optimised: [0, 1, 2, 3],
  holdout: [4],
  /** Bids at their own price that would have been lowered. */
  compared: [3, 4],
  all: [0, 1, 2, 3, 4],
} as const satisfies Record<string, readonly number[]>
export type Union = keyof typeof unions

function positions<Name extends string>(names: readonly Name[]) {
  return Object.fromEntries(names.map((name, index) => [name, index])) as Record<Name, number>
}

/** The sums of one group. Money is CPM. */
const columns = [
  'bids',
  'wins',
  'spend',
  /** Expected wins and spend at the price sent (`due`), and at the bid's own price (`In`). */
  'due',
  'spendDue',
  'dueIn',
  'spendIn',
  'margin',
  'marginDue',
  /**
   * The same, each bid weighted by the share of its wins that the lower price is expected to lose, and the variance of the
   * expected wins. Spend is weighted by the root of the price besides, because otherwise a few bids of high prices would decide.
   */
  'weighedWins',
  'weighedDue',
  'weighedDueIn',
  'weighedVariance',
  'weighedSpend',
  'weighedSpendDue',
  'weighedSpendIn',
  'weighedSpendVariance',
  /** Of bids whose lowest winning price is known: wins at the price sent, and at the bid's own price (`In`). */
  'knownWins',
  'knownWinsIn',
  'knownSpend',
  'knownSpendIn',
] as const
export type Column = (typeof columns)[number]
const columnAt = positions(columns)
const width = columns.length
const evidenceWidth = groups.length * width

/** Number of bids of a supplier that the sums cover at most: the error of the model changes with the market. */
const horizon = 25_000

/** One bid: its prices, win probabilities at its own price and at the one sent, and its weight in comparisons. */
type Expected = Pick<Exposure, 'inBa' | 'sent' | 'winIn' | 'winOut' | 'weight'>

export class Evidence {
  readonly sums = new Float64Array(evidenceWidth)
  /** Sums since the last delta. */
  readonly fresh = new Float64Array(evidenceWidth)
  /** Bids ever, settled or not. */
  age = 0
  /** Milliseconds since the epoch. Bids that were sent before are no evidence. */
  from = 0
  private readonly scale: number

  /** `scale`: multiple of the horizon of one supplier. */
  constructor(scale = 1) {
    this.scale = scale
  }

  private addTo(base: number, name: Column, value: number): void {
    const column = base + columnAt[name]
    this.sums[column]! += value
    this.fresh[column]! += value
  }

  /** Adds an exposure that settled; `sign` -1 removes it again. */
  exposed(group: Group, { inBa, sent, winIn, winOut, weight }: Expected, sign: 1 | -1 = 1): void {
    const base = groupAt[group] * width
    const due = winOut * sign
    const dueIn = winIn * sign
    const variance = due * (1 - winOut)
    this.addTo(base, 'bids', sign)
    this.addTo(base, 'due', due)
    this.addTo(base, 'spendDue', due * inBa)
    this.addTo(base, 'dueIn', dueIn)
    this.addTo(base, 'spendIn', dueIn * inBa)
    this.addTo(base, 'marginDue', due * (inBa - sent))
    const money = weight * Math.sqrt(inBa)
    this.addTo(base, 'weighedDue', due * weight)
    this.addTo(base, 'weighedDueIn', dueIn * weight)
    this.addTo(base, 'weighedVariance', variance * weight * weight)
    this.addTo(base, 'weighedSpendDue', due * money)
    this.addTo(base, 'weighedSpendIn', dueIn * money)
    this.addTo(base, 'weighedSpendVariance', variance * money * money)
    this.fade()
  }

  addWin(group: Group, inBa: number, paid: number, weight: number): void {
    const base = groupAt[group] * width
    this.addTo(base, 'wins', 1)
    this.addTo(base, 'spend', inBa)
    this.addTo(base, 'margin', inBa - paid)
    this.addTo(base, 'weighedWins', weight)
    this.addTo(base, 'weighedSpend', weight * Math.sqrt(inBa))
  }

  /** Adds a bid whose lowest winning price is known. It represents `times` bids. */
  addLeast(group: Group, inBa: number, sent: number, least: number, times = 1): void {
    if (least > inBa) return
    const base = groupAt[group] * width
    this.addTo(base, 'knownWinsIn', times)
    this.addTo(base, 'knownSpendIn', times * inBa)
    if (least > sent) return
    this.addTo(base, 'knownWins', times)
    this.addTo(base, 'knownSpend', times * inBa)
  }

  private fade(): void {
    const most = horizon * this.scale
    let bids = 0
    for (let n = 0; n < evidenceWidth; n += width) bids += this.sums[n]!
    const excess = bids / most
    // In steps of 1 %, not at every bid.
    if (excess <= 1.01) return
    for (let n = 0; n < evidenceWidth; n++) this.sums[n]! /= excess
  }

  /** Adds sums of another node. They are not part of the next delta. */
  merge(sums: Float64Array): void {
    for (let n = 0; n < evidenceWidth; n++) this.sums[n]! += sums[n]!
    for (let n = 0; n < evidenceWidth; n += width) this.age += sums[n]!
    this.fade()
  }

  restoreSums(sums: readonly number[], age: number, from = 0): void {
    this.sums.set(sums)
    this.age = age
    this.from = from
  }

  total(union: Union, name: Column): number {
    return totalOf(this.sums, union, name)
  }

  reset(): void {
    this.sums.fill(0)
  }

  /** Begins with bids that are sent from now on. */
  begin(now: number): void {
    this.reset()
    this.from = now
  }
}

export function totalOf(sums: Float64Array, union: Union, name: Column): number {
  let sum = 0
  for (const group of unions[union]) sum += sums[group * width + columnAt[name]]!
  return sum
}

/** The fields of an exposure that evidence and guards need. */
export type Outcome = Omit<Exposure, 'ticket' | 'supplier' | 'second' | 'lnIn'>

/** At a higher ln of the factor a bid was sent at its own price. */
const ownPrice = -1e-3
/** The group of an exposure. null: it was sent at its own price (shadow, hold, share) and not at the price that was decided. */
export function groupOf({ arm, held, lnF, winIn, winOut }: Outcome): Group | null {
  if (arm === 'holdout') return 'holdout'
  if (held) return 'held'
  if (lnF >= ownPrice && winOut < winIn - 2 * shareStep) return null
  return arm === 'explored' ? 'explored' : lnF < ownPrice ? 'lowered' : 'own'
}

/** Whether the price of a bid shows what a lower price loses. */
export const isTried = (group: Group | null): boolean => group === 'lowered' || group === 'explored'

/**
 * Sums by supplier, as deltas contain them:
 *
 *   supplier  sums
 *   4         8 x 105
 */
const recordBytes = 4 + 8 * evidenceWidth

/**
 * The bytes of sums by supplier.
 *
 * @param records the key of a supplier's state, and its sums, `evidenceWidth` of them
 */
export function writeRecords(records: readonly (readonly [number, Float64Array])[]): Uint8Array {
  const bytes = new Uint8Array(records.length * recordBytes)
  for (const [n, [supplier, sums]] of records.entries()) {
    viewOf(bytes).setUint32(n * recordBytes, supplier)
    writeFloats(bytes, n * recordBytes + 4, sums)
  }
  return bytes
}

/**
 * Records with a number that is not finite are left out.
 *
 * @param bytes of another node; an incomplete last record is left out
 */
export function* readRecords(bytes: Uint8Array): Generator<[number, Float64Array]> {
  for (let index = 0; index + recordBytes <= bytes.length; index += recordBytes) {
    const sums = floatsAt(bytes, index + 4, evidenceWidth)
    if (sums.every(Number.isFinite)) yield [viewOf(bytes).getUint32(index), sums]
  }
}
