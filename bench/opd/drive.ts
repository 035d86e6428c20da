/**
 * Drives learners through a market: decide, expose, and a win notice later, or none. Virtual clock, common random
 * numbers: two learners that sent the same price would have won the same bids at the same times.
 */
import { type Decision, type Learner, type Policy, refit } from '../../opd/learner.ts'
import { Agenda } from '../harness/agenda.ts'
import { firstBidAt, type Market, minimumToWin, type Offer } from './market.ts'
import { Oracle, type OracleReward } from './oracle.ts'
import { type Source, source } from './random.ts'

/** The part of the learner's interface that a run needs. Baselines implement no more. */
export type Bidder = Pick<Learner, 'decide' | 'expose' | 'win' | 'advance'> &
  Partial<Pick<Learner, 'delta' | 'merge' | 'snapshot' | 'lose' | 'refitJob' | 'applyRefit'>>

export interface DriveOptions {
  bids: number
  seed: number
  policy: Policy
  /** Of the bids, where it is not the market's. */
  mode?: 'revenue' | 'margin'
  /** One learner a node. */
  create: () => Bidder
  nodes?: number
  /** The first node is killed at this bid. Its updates that were not sent are lost. */
  killAt?: number
  /** Milliseconds from bid to notice. */
  delay?: (now: number, draw: Source) => number
  /** Share of notices that never come. */
  lost?: number
  /** Notices say the lowest price that would have won, and losses are notified too. */
  minimumToWin?: boolean
  /** Milliseconds between bids, where it is not the market's. */
  every?: (n: number) => number
  /** The multipliers of the oracle; pure margin by default. */
  reward?: OracleReward
  /** Bids of one row of the result. */
  rowBids?: number
  /** Called after each bid. */
  watch?: (n: number, decision: Decision) => void
}

const empty = () => ({
  margin: 0,
  best: 0,
  wins: 0,
  winsBase: 0,
  winsBest: 0,
  spend: 0,
  spendBase: 0,
  spendBest: 0,
  bids: 0,
  holdout: 0,
  factor: 0,
})
/** Sums over `rowBids` bids, on the true curve. `base`: at the bid's own price. Treated and explored bids only. */
export type Row = ReturnType<typeof empty>

export function sumOf(rows: readonly Row[]): Row {
  const total = empty()
  for (const row of rows)
    for (const key of Object.keys(total) as (keyof Row)[]) total[key] += row[key]
  return total
}

export interface Driven {
  rows: Row[]
  bidders: Bidder[]
}

interface Notice {
  features: Uint8Array
  /** 0: a loss notice. */
  cleared: number
  /** The lowest price that would have won, where the notice says it. */
  least: number | undefined
  /** Which node receives it. */
  node: number
}

/** 2-5 % lost, seconds: the usual. */
export const usualDelay = (_now: number, draw: Source) => 8000 * Math.exp(0.8 * draw.normal())
/** Milliseconds between calls of `advance`, and between exchanges of nodes. */
const advanceEvery = 250
const exchangeEvery = 5000
/** Milliseconds that the worker takes for a refit. */
const refitTakes = 1000

/** The learners of all nodes, with the notices and refits that are on their way to them. */
class Nodes {
  readonly bidders: Bidder[]
  readonly notices = new Agenda<Notice>()
  private readonly refits = new Agenda<{ node: number; result: Uint8Array }>()
  private readonly refitting = new Set<number>()
  private readonly alive: boolean[]
  private advanced = firstBidAt
  private exchanged = firstBidAt

  constructor(create: () => Bidder, count: number) {
    this.bidders = Array.from({ length: count }, create)
    this.alive = this.bidders.map(() => true)
  }

  kill(node: number): void {
    this.alive[node] = false
  }

  /** The living node that a uniform number falls on. */
  bidderAt(u: number): Bidder {
    const node = Math.floor(u * this.bidders.length)
    return this.bidders[this.alive[node] ? node : (node + 1) % this.bidders.length]!
  }

  /** Delivers the notices and refits that are due, and advances the learners. */
  run(now: number): void {
    while (this.notices.next <= now) {
      const due = this.notices.next
      const { features, cleared, node, least } = this.notices.takeEntry()
      const to = this.bidderAt((node + 0.5) / this.bidders.length)
      if (cleared > 0) to.win(features, cleared, due, least)
      else to.lose!(features, least ?? null, due)
    }
    while (this.refits.next <= now) {
      const { node, result } = this.refits.takeEntry()
      this.refitting.delete(node)
      this.bidders[node]!.applyRefit!(result)
    }
    if (now - this.advanced >= advanceEvery) {
      this.advanced = now
      for (const node of this.living()) this.advance(node, now)
    }
    if (this.bidders.length > 1 && now - this.exchanged >= exchangeEvery) {
      this.exchanged = now
      this.exchange()
    }
  }

  private living(): number[] {
    return [...this.bidders.keys()].filter((node) => this.alive[node])
  }

  private advance(node: number, now: number): void {
    const bidder = this.bidders[node]!
    bidder.advance(now)
    const job = this.refitting.has(node) ? null : (bidder.refitJob?.(now) ?? null)
    if (job === null) return
    this.refitting.add(node)
    this.refits.addEntry(now + refitTakes, { node, result: refit(job) })
  }

  private exchange(): void {
    const living = this.living()
    const deltas = living.map((node) => this.bidders[node]!.delta!())
    for (const [from, delta] of deltas.entries())
      for (const [to, node] of living.entries()) if (to !== from) this.bidders[node]!.merge!(delta)
  }
}

/** Adds a treated bid, its price and the oracle's one, on the true curve. */
function grade(row: Row, oracle: Oracle, offer: Offer, price: number, reward: OracleReward): void {
  const { inBa } = offer.facts
  oracle.loadOffer(offer)
  const best = oracle.best((reward.theta - 1) * inBa + reward.lambda)
  const [wins, base] = [offer.wins(price), offer.wins(inBa)]
  row.margin += offer.margin(price)
  row.best += best.margin
  row.wins += wins
  row.winsBase += base
  row.winsBest += best.wins
  row.spend += wins * inBa
  row.spendBase += base * inBa
  row.spendBest += best.wins * inBa
  row.factor += price / inBa
}

export function drive(market: Market, options: DriveOptions): Driven {
  const { bids, seed, policy, reward = { theta: 1, lambda: 0 }, lost = 0.03 } = options
  const { nodes = 1, delay = usualDelay, rowBids = Math.ceil(bids / 60) } = options
  const chance = source(seed).fork(7)
  const random = source(seed).fork(8).uniform
  const all = new Nodes(options.create, nodes)
  const oracle = new Oracle()
  const rows: Row[] = []
  let row = empty()
  for (let n = 0, now = firstBidAt; n < bids; n++, now += options.every?.(n) ?? market.every) {
    all.run(now)
    if (n === options.killAt) all.kill(0)
    const offer = market.offer(n, now)
    if (options.mode !== undefined) offer.facts.mode = options.mode
    // All are drawn for every bid, so that the numbers of the next bid do not depend on the outcome of this one.
    const [u, losing, takes, here, there] = [
      chance.uniform(),
      chance.uniform(),
      delay(now, chance),
      chance.uniform(),
      chance.uniform(),
    ]
    const bidder = all.bidderAt(here)
    const decision = bidder.decide(offer.facts, policy, `auction-${seed}-${n}`, now, random)
    const price = decision.outBa
    const features = bidder.expose(decision, price, now)
    const won = u < offer.wins(price)
    const saysLeast = options.minimumToWin === true
    if ((won || saysLeast) && losing >= lost) {
      const least = saysLeast ? minimumToWin(offer, u, 3 * offer.facts.inBa) : undefined
      all.notices.addEntry(now + takes, {
        features,
        cleared: won ? offer.clears(price, u) : 0,
        node: Math.floor(there * nodes),
        least: least === Number.POSITIVE_INFINITY ? undefined : least,
      })
    }
    row.bids++
    if (decision.arm === 'holdout') row.holdout++
    else grade(row, oracle, offer, price, reward)
    market.sees?.(price, won, now)
    if (row.bids >= rowBids) {
      rows.push(row)
      row = empty()
    }
    options.watch?.(n, decision)
  }
  if (row.bids > 0) rows.push(row)
  return { rows, bidders: all.bidders }
}

/** Sums of rows whose bids lie within shares [from, to) of the run. */
export const between = (rows: readonly Row[], from: number, to = 1): Row =>
  sumOf(rows.slice(Math.round(rows.length * from), Math.round(rows.length * to)))
