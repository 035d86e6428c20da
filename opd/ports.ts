/** The interfaces that the engine depends on. opd/state implements them, in memory or over Redis. */

import type { NodeLearner } from './learner-types.ts'
import type { WrittenRecord } from './pricing/record.ts'
import type { Mode } from './shared/arms.ts'
import type { DecisionRecord } from './types.ts'

/** Recent decisions by bid id, for win notices without a context. Bounded, O(1), without sweeps. */
export interface BidLog {
  /**
   * Returns where the record was written, valid until the next call; null: it was not.
   *
   * @param record found by its `bidId` until it is too old, or the log is full
   */
  put(record: DecisionRecord): WrittenRecord | null
  /**
   * The latest decision of each supplier.
   *
   * @param bidId `id` of the bid, as the supplier sent it
   */
  find(bidId: string): DecisionRecord[]
}

/** The bid log of all nodes. Writes are batched, and nothing waits for them. */
export interface SharedBidLog {
  /** @param record not changed afterwards; other nodes find it some 20 ms later, if at all */
  put(record: DecisionRecord): void
  /**
   * The latest decision of each supplier; null: the log cannot be asked, or nodes have decisions that it lacks.
   *
   * @param bidId `id` of the bid, as the supplier sent it
   * @throws implementations may reject: the caller regards that as null
   */
  find(bidId: string): Promise<DecisionRecord[] | null>
  /** Resolves when nodes that are not late have written the bids that they have answered until now. */
  written(): Promise<void>
}

/** What a price and its notices need of a learner. */
export type PricingLearner = Pick<
  NodeLearner,
  'decide' | 'expose' | 'win' | 'winUnapplied' | 'lose' | 'settlePast' | 'withdraw'
>

/** The model of each mode, which the integrations of the mode share. */
export interface Learners {
  /**
   * Looked up for each decision and each notice.
   *
   * @param mode of the decision
   */
  learnerOf(mode: Mode): PricingLearner
  /**
   * 0 or more. Rises with each snapshot. Contexts contain it.
   *
   * @param mode of the decision
   */
  version(mode: Mode): number
  /**
   * 0 or more. Rises with each roll-back.
   *
   * @param mode of the decision
   */
  epoch(mode: Mode): number
}

/** Observes the decisions of bids. */
export interface DecisionObserver {
  /**
   * What the decisions of one integration are given to. An engine asks for it when the integration has its first bid, and again
   * after a change of its configuration.
   *
   * @param supplier identifier of the integration
   */
  observerOf(supplier: string): BidObserver
}

/** Observes each decision of a bid of one supplier. Called on the hot path: it must only count. */
export interface BidObserver {
  /**
   * @param record not changed afterwards
   * @param inBa its `inBa` as a number, CPM in its currency
   * @param outBa its `outBa` as a number, CPM in its currency
   */
  decided(record: DecisionRecord, inBa: number, outBa: number): void
}

/** The decision log, off by default. Called on the hot path: it must only buffer. */
export interface DecisionSink {
  /** Whether entries have bid id and context. */
  readonly contexts?: boolean
  /** @param entry may be kept */
  writeDecision(entry: DecisionEntry): void
  /** @param entry of a decision that was written before, perhaps by another node; once for each decision */
  writeWin(entry: WinEntry): void
  /**
   * A win that must not train the model: the outcome of the bid is unknown.
   *
   * @param entry `time` in milliseconds since the epoch, `id` of the decision
   */
  writeWithdrawal(entry: { time: number; id: string; ssp: string }): void
}

/** The kinds of lines. */
export type DecisionLine = Exclude<keyof DecisionSink, 'contexts'>

/** All amounts of the decision log are CPM in the base currency. */
export interface WinEntry {
  time: number
  id: string
  ssp: string
  cleared: number
  late: boolean
  /** The bid competed at its own price, because the exchange did not apply the lower one. Otherwise absent. */
  applied?: boolean
}

export interface DecisionEntry {
  time: number
  id: string
  /** The id of the bid request, cut; of the bid where the request has none. */
  request: string
  ssp: string
  mode: string
  arm: string
  /** Probability of the arm. */
  propensity: number
  /** Density of the factor among explored bids; null for other arms, or if it is unknown. */
  density: number | null
  in: number
  floor: number
  out: number
  /** The lowest factor that policy and floor allow. */
  low: number
  /** Win probability at `in` and at the price of the model (in shadow, not the price sent); null: the model was not asked. */
  winIn: number | null
  winOut: number | null
  theta: number | null
  /** CPM. */
  lambda: number | null
  /** The active guard; null: the model was not asked. */
  guard: string | null
  /** Pseudonym; null: not in the request. */
  publisher: string | null
  domain: string | null
  /** The other features of the model. None is personal data. */
  features: Record<string, string | number | undefined>
  model: number
  /** With contexts: by them a notice from a file finds its decision. */
  bid?: string
  svc_opd?: string
}

/** What a node asks of the tokens that the nodes of a location share for one supplier. */
export interface TokenRequest {
  supplier: string
  /** Tokens per second of all nodes together, and how many are kept at most. */
  rate: number
  depth: number
  /** Tokens; below 0: gives back. */
  wanted: number
  /** Requests that arrived at this node since it last asked. */
  arrived: number
}

export interface TokenGrant {
  tokens: number
  /** Requests that arrived at all nodes, each counted by e^(-its age / `demandMemory`). */
  demand: number
}

/** Milliseconds. */
export const demandMemory = 2000

/** The token buckets that the nodes of a location share. */
export interface SharedTokens {
  /**
   * The grants in the order of the requests; null: the shared state is away.
   *
   * @param requests at most one of each supplier
   */
  ask(requests: readonly TokenRequest[]): Promise<TokenGrant[] | null>
}
