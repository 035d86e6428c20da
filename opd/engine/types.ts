import type { ContextKey, Integration } from '../config.ts'
import type { Arm, Guard, Mode } from '../pricing/arms.ts'
import type { AnswerReason } from '../pricing/types.ts'
import type { Rates } from '../shared/rates.ts'

/** A promise where decoding takes a while; it never rejects. */
export type RequestSource = () => Buffer | null | Promise<Buffer | null>

/** What the proxy hands over: an answer whose bytes have been decoded. */
export interface AnswerToRewrite {
  supplier: string
  /** Decoded body of the 200 answer. */
  body: Buffer
  /** Decoded body of the bid request, asked for only when a bid wants a price; null: it does not decode. */
  request: RequestSource
  /** Seats whose bids are cut out of the answer; empty for most. */
  inactiveSeats: ReadonlySet<string>
  /** Only cut seats: the answer's headers forbid a look for OPD (another type, no-transform). */
  cutOnly?: boolean
}

/** What is to be waited for before the next turn, if anything. */
export type Turn = Promise<unknown> | undefined

export interface RewrittenAnswer {
  /** The same Buffer object as came in when nothing changed. */
  body: Buffer
  /** Set when the whole answer was left untouched for one reason. */
  reason: AnswerReason | null
  /** Bids cut out, and bids that stand in `body`; `unreadable` when seats had to be cut and the answer cannot be read. */
  removed: number
  left: number
  unreadable: boolean
}

/** A refusal that names the place: `pointer` is a JSON pointer into the body. */
export interface Fault {
  pointer: string
  detail: string
}

/** `price` is a JSON number as text: the bid's own digits where nothing changed. */
export interface StandaloneEntry {
  id: string
  price: string
  context: string
}

/** Bids are priced as `entries` is read, once: ten thousand of them need not hold the event loop. `withoutImp`: their
 * floor is 0, since no imp came with them. */
export type StandaloneAnswer =
  | { ok: true; entries: Iterable<StandaloneEntry>; withoutImp: boolean }
  | { ok: false; status: 400 | 403 | 404; faults: Fault[] }

/** What a checked context or the bid log tells of one decision. Money is exact decimal text, CPM. */
export interface DecisionRecord {
  /** Identifies the decision everywhere: context, bid log, ledger. */
  id: string
  bidId: string
  supplier: string
  mode: Mode
  arm: Arm
  propensity: number
  inBa: string
  outBa: string
  /** Standalone only: the demand-side price that came with the bid. */
  priceDsp?: string
  currency: string
  /** Milliseconds since the epoch. */
  at: number
  modelVersion: number
  publisher: string
  domain: string
  /** Whether a win of it may teach at all (test, no_rate: never). */
  teaches: boolean
  /** The learner's own bytes, as `Learner.expose` returned them; empty when it teaches nothing. */
  features: Uint8Array
  /** The model's win probability at in_ba and at out_ba; absent where it was not asked. */
  winIn?: number
  winOut?: number
  /** The multipliers at work (lambda in CPM of the base), and the floor in the bid's currency; seven digits of each. */
  theta?: number
  lambda?: number
  guard?: Guard
  floor?: number
}

export type ContextState = 'valid' | 'absent' | 'unexpanded' | 'invalid' | 'expired'

/** What `GET /opd/imp` could be traced to (CONTRACT 5, 6). */
export interface Traced {
  context: ContextState
  by: 'context' | 'bid_log' | null
  record: DecisionRecord | null
  /** The bare bid id was logged for several suppliers and the notice names none. */
  ambiguous: boolean
  /** Past `attributionWindow`. */
  late: boolean
}

export interface WonMoney {
  cleared: number
  margin: number
}

/** The price engine as its two users, proxy and admin, know it. */
export interface Engine {
  /** Takes effect for all integrations at once. */
  configure(settings: EngineSettings): void
  /** Takes in one integration, or what is new of it; counters stay. */
  setIntegration(integration: Integration): void
  removeIntegration(supplier: string): void
  /** Integrations held at factor 1; `*` holds all. */
  setHolds(suppliers: ReadonlySet<string>): void
  /** The whole answer at once; a request that is still to be decoded counts as one that cannot be read. */
  rewrite(answer: AnswerToRewrite): RewrittenAnswer
  /**
   * The same in turns of about a millisecond, most answers in one: between them the event loop is free. Where a turn
   * ends with a promise the next one waits for it.
   */
  rewriteInTurns(answer: AnswerToRewrite): Iterator<Turn, RewrittenAnswer>
  /** Counts an answer that the proxy did not hand over: too large, not decodable, or not to be looked at. */
  untouched(supplier: string, reason: AnswerReason): void
  /** Whether answers of the supplier have to be read at all: OPD on or shadow. */
  reads(supplier: string): boolean
  /** Counts an answer that would have been read, were OPD on: `disabled` or `invalid_config`. */
  unread(supplier: string): void
  standalone(supplier: string, body: Buffer): StandaloneAnswer
  /**
   * Looks a notice up: context first, then the bid log (memory, then the shared one). Where `opens` says false of the
   * context's state no log is asked: who has no credential may cost nothing more.
   */
  trace(
    notice: { bidId: string; svcOpd: string | undefined; ssp: string | undefined },
    opens?: (context: ContextState) => boolean,
  ): Promise<Traced>
  /** Reads one context, however old, for the explain call; the record is null where it cannot be read. */
  explain(
    svcOpd: string,
    bidId: string,
  ): { context: ContextState; record: DecisionRecord | null; late: boolean }
  /** Units of the currency for one unit of the base; null where there is no rate. */
  rate(currency: string): number | null
  /** Counts what the ledger has recorded of a decision: that it has won, its money (CPM in its own currency), or both. */
  counted(record: DecisionRecord, won: boolean, money: WonMoney | null): void
  /** Teaches a win that the ledger has recorded; at most once per decision, the caller sees to that. */
  taught(record: DecisionRecord, cleared: number, late: boolean): void
  /** A win came that may not teach: its exposure is withdrawn. */
  withdrawn(record: DecisionRecord): void
}

/** What all integrations share. */
export interface EngineSettings {
  keys: readonly ContextKey[]
  /** Milliseconds. */
  attributionWindow: number
  contextTtl: number
  rates: Rates | null
  base: string
}

export interface EngineConfig extends EngineSettings {
  integrations: readonly Integration[]
}
