/**
 * Drives learners through a market: decide, expose, and a win notice later, or none. Virtual clock, common random
 * numbers: two learners that sent the same price would have won the same bids at the same times.
 */
import { type Learner, type Policy, refit } from '../../opd/learner.ts'
import { type Market, minimumToWin } from './market.ts'
import { type Multipliers, Oracle } from './oracle.ts'
import { Queue } from './queue.ts'
import { type Source, source } from './random.ts'

/** What a run needs of a learner; baselines implement no more. */
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
  /** Milliseconds between exchanges of nodes. */
  exchangeEvery?: number
  /** The first node is killed at this bid, and what it had not sent is lost. */
  killAt?: number
  /** Milliseconds from bid to notice. */
  delay?: (now: number, draw: Source) => number
  /** Share of notices that never come. */
  lost?: number
  /** Notices say the lowest price that would have won, and losses are notified too. */
  minimumToWin?: boolean
  /** Milliseconds between bids, where it is not the market's. */
  every?: (n: number) => number
  /** Milliseconds between calls of `advance`. */
  advanceEvery?: number
  /** What the oracle is held to; pure margin by default. */
  reward?: Multipliers
  /** The oracle's lowest factor. */
  minFactor?: number
  /** Bids a row of the result stands for. */
  rowBids?: number
  /** Called after each bid: what a test or a plot wants to look at. */
  watch?: (n: number, bidder: Bidder, now: number) => void
}

/** Sums over `rowBids` bids, on the true curve. `base`: at the bid's own price. Treated and explored bids only. */
export interface Row {
  margin: number
  best: number
  wins: number
  winsBase: number
  winsBest: number
  spend: number
  spendBase: number
  spendBest: number
  bids: number
  holdout: number
  factor: number
}

export interface Driven {
  rows: Row[]
  bidders: Bidder[]
}

const empty = (): Row => ({
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

/** 2-5 % lost, seconds: the usual. */
export const usualDelay = (_now: number, draw: Source) => 8000 * Math.exp(0.8 * draw.normal())
/** Milliseconds that the worker takes for a refit. */
const refitTakes = 1000
const start = 1_760_000_000_000

export function drive(market: Market, options: DriveOptions): Driven {
  const { bids, seed, policy, reward = { theta: 1, lambda: 0 }, minFactor = 0 } = options
  const { nodes = 1, lost = 0.03, delay = usualDelay, rowBids = Math.ceil(bids / 60) } = options
  const { advanceEvery = 250, exchangeEvery = 5000 } = options
  const chance = source(seed).fork(7)
  const random = source(seed).fork(8).uniform
  const bidders = Array.from({ length: nodes }, options.create)
  const alive = bidders.map(() => true)
  const queue = new Queue()
  const oracle = new Oracle()
  const rows: Row[] = []
  let row = empty()
  let now = start
  let advanced = now
  let exchanged = now
  const refits: { due: number; node: number; result: Uint8Array }[] = []
  const refitting = bidders.map(() => false)

  function nodeOf(u: number): number {
    const node = Math.floor(u * nodes)
    return alive[node] ? node : (node + 1) % nodes
  }
  function tick(): void {
    while (queue.next <= now) {
      const { features, cleared, due, node, least } = queue.pop()
      const to = bidders[nodeOf((node + 0.5) / nodes)]!
      if (cleared > 0) to.win(features, cleared, due, least)
      else to.lose!(features, least ?? null, due)
    }
    while (refits.length > 0 && refits[0]!.due <= now) {
      const { node, result } = refits.shift()!
      refitting[node] = false
      bidders[node]!.applyRefit!(result)
    }
    if (now - advanced >= advanceEvery) {
      advanced = now
      bidders.forEach((bidder, node) => {
        if (!alive[node]) return
        bidder.advance(now)
        const job = refitting[node] ? null : (bidder.refitJob?.(now) ?? null)
        if (job === null) return
        refitting[node] = true
        refits.push({ due: now + refitTakes, node, result: refit(job) })
      })
    }
    if (nodes > 1 && now - exchanged >= exchangeEvery) {
      exchanged = now
      const deltas = bidders.map((bidder, node) => (alive[node] ? bidder.delta!() : null))
      deltas.forEach((delta, from) => {
        if (delta === null) return
        bidders.forEach((bidder, to) => {
          if (to !== from && alive[to]) bidder.merge!(delta)
        })
      })
    }
  }

  for (let n = 0; n < bids; n++, now += options.every?.(n) ?? market.every) {
    tick()
    if (n === options.killAt) alive[0] = false
    const offer = market.offer(n, now)
    if (options.mode !== undefined) offer.facts.mode = options.mode
    const { inBa } = offer.facts
    // Drawn whether they are needed or not: the next bid's numbers must not depend on this one's fate.
    const [u, losing, takes, here, there] = [
      chance.uniform(),
      chance.uniform(),
      delay(now, chance),
      chance.uniform(),
      chance.uniform(),
    ]
    const bidder = bidders[nodeOf(here)]!
    const decision = bidder.decide(offer.facts, policy, `auction-${seed}-${n}`, now, random)
    const price = decision.outBa
    const features = bidder.expose(decision, price, now)
    const wins = offer.wins(price)
    const won = u < wins
    const saysLeast = options.minimumToWin === true
    if ((won || saysLeast) && losing >= lost) {
      const least = saysLeast ? minimumToWin(offer, u, 3 * inBa) : undefined
      queue.push({
        due: now + takes,
        features,
        cleared: won ? offer.clears(price, u) : 0,
        node: Math.floor(there * nodes),
        ...(least === undefined || least === Number.POSITIVE_INFINITY ? {} : { least }),
      })
    }
    market.sees?.(price, won, now)
    row.bids++
    if (decision.arm === 'holdout') row.holdout++
    else {
      oracle.load(offer, minFactor)
      const best = oracle.best((reward.theta - 1) * inBa + reward.lambda)
      const base = offer.wins(inBa)
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
    if (row.bids >= rowBids) {
      rows.push(row)
      row = empty()
    }
    options.watch?.(n, bidder, now)
  }
  if (row.bids > 0) rows.push(row)
  return { rows, bidders }
}

/** Sums of rows whose bids lie within shares [from, to) of the run. */
export function between(rows: readonly Row[], from: number, to = 1): Row {
  const total = empty()
  const picked = rows.slice(Math.round(rows.length * from), Math.round(rows.length * to))
  for (const row of picked)
    for (const key of Object.keys(total) as (keyof Row)[]) total[key] += row[key]
  return total
}
