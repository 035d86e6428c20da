/** What the engine needs from outside; opd/state implements these, in memory or over Redis. */
import type { DecisionRecord } from './engine/types.ts'
import type { Learner } from './learner.ts'

/** The newest decisions by bid id, for notices that bring no context. Bounded, O(1), no sweeps. */
export interface BidLog {
  put(record: DecisionRecord): void
  /** The latest decision per supplier logged under the bid id. */
  find(bidId: string): DecisionRecord[]
}

/** The bid log of all nodes. Writes are batched and never waited for. */
export interface SharedBidLog {
  put(record: DecisionRecord): void
  find(bidId: string): Promise<DecisionRecord[]>
}

/** The learner of each mode; looked up per decision because a rollback replaces it. */
export interface Learners {
  of(mode: 'revenue' | 'margin'): Learner
  /** Rises with each snapshot or rollback; written into contexts. */
  version(mode: 'revenue' | 'margin'): number
}

/** The decision log, off by default. Called on the hot path: must only buffer. */
export interface DecisionSink {
  decided(entry: DecisionEntry): void
  won(entry: WinEntry): void
  /** A win came that may not teach: what became of the bid is not known. */
  withdrawn(entry: { time: number; id: string; ssp: string }): void
}

/** `cleared`: CPM in the base currency, as all money of the decision log is. */
export interface WinEntry {
  time: number
  id: string
  ssp: string
  cleared: number
  late: boolean
}

export interface DecisionEntry {
  time: number
  id: string
  ssp: string
  mode: string
  arm: string
  /** Of the arm. */
  propensity: number
  /** Explored only: density of the factor, given that the bid was explored; null where it is not known. */
  density: number | null
  in: number
  floor: number
  out: number
  /** The lowest factor that policy and floor permit. */
  low: number
  /** What the model expected at `in` and at the price it chose (in shadow not the price sent); null: not asked. */
  winIn: number | null
  winOut: number | null
  theta: number | null
  /** CPM. */
  lambda: number | null
  /** What holds prices up; null: no guard was asked. */
  guard: string | null
  /** Hashed; null: the request names none. */
  publisher: string | null
  domain: string | null
  /** The other features of the model, none of them personal. */
  features: Record<string, string | number>
  model: number
}
