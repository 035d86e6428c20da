import type { Mutation } from './agent/agent.ts'
import type { AgentCall } from './agent/call.ts'
import type { ContextKey, Integration } from './config.ts'
import type { Body } from './json/scanner.ts'
import type { WorkMemory } from './json/work-memory.ts'
import type { Arm, Guard, Mode, Via } from './shared/arms.ts'
import type { Facets } from './shared/facets.ts'
import type { Rates } from './shared/rates.ts'
import type { ResponseReason } from './shared/reasons.ts'

/** The decoded bid request. A promise if decoding is still under way; it never rejects. */
export type RequestSource = () => Body | null | Promise<Body | null>

/** How a bid request or a bid response is written. */
export type OpenRtbFormat = 'json' | 'protobuf'

/** A bid response from the proxy, its body decoded. */
export interface ResponseToRewrite {
  /** Of the response; default: JSON. */
  format?: OpenRtbFormat | undefined
  requestFormat?: OpenRtbFormat | undefined
  /** Decoded body of the 200 response. */
  body: Buffer
  /** Called only if a bid is to be priced. null: the bid request cannot be decoded. */
  request: RequestSource
  /** Seats whose bids are removed from the response; empty for most suppliers. */
  inactiveSeats: ReadonlySet<string>
  /** Where the memory of a long response is counted; absent: nowhere. */
  memory?: WorkMemory | undefined
  /** Remove seats and price nothing: the headers exclude OPD (another content type, no-transform). */
  seatsOnly?: boolean
}

/** What is done with the responses of one supplier. Each response needs it, so it is found once and kept. */
export interface SupplierResponses {
  /** Whether responses have to be parsed: OPD is on or in shadow. */
  readonly reads: boolean
  /**
   * Rewrites a response in slices of about a millisecond; most responses take one. The caller yields to the event loop
   * between slices. If a slice yields a promise, the caller awaits it first. `return` ends it early. Never throws: a response
   * that cannot be rewritten is returned as it came, with the reason.
   *
   * @param response its `body` must not change until the end
   * @example
   * ```ts
   * const slices = engine.responsesOf('acme').rewriteInSlices(response)
   * let slice = slices.next()
   * for (; !slice.done; slice = slices.next()) await (slice.value ?? nextTurn())
   * send(slice.value.body)
   * ```
   */
  rewriteInSlices(response: ResponseToRewrite): Iterator<Pause, RewrittenResponse>
  /**
   * Counts a response that the proxy did not pass to `rewriteInSlices`, which counts by itself.
   *
   * @param reason why the whole response is left alone
   */
  countUnmodified(reason: ResponseReason): void
  /** Counts a response that OPD would have parsed if it were on, so `reads` is false: `disabled` or `invalid_config`. */
  countUnread(): void
}

/** Between two slices of a rewrite: a promise that the next slice needs, or undefined. */
export type Pause = Promise<unknown> | undefined

export interface RewrittenResponse {
  /** The Buffer that came in, if nothing changed. */
  readonly body: Buffer
  /** A changed body as latin1 text. Where it is given, `body` is made from it when it is read. */
  readonly text?: string
  /** Why the whole response was left unmodified; null: it was not. */
  reason: ResponseReason | null
  /** Bids that were removed with their seats. */
  removed: number
  /** Bids that remain in `body`. */
  left: number
  /** Seats had to be removed, and the response cannot be parsed. */
  unreadable: boolean
}

/** One error in the body of a standalone call; `pointer` is a JSON pointer (RFC 6901). */
export interface Fault {
  pointer: string
  detail: string
}

/** `price` is the text of a JSON number: the bid's own digits if the price did not change. */
export interface StandaloneEntry {
  id: string
  price: string
  context: string
}

/**
 * Bids are priced while `entries` is iterated, so that the caller can yield to the event loop. `entries` can be iterated
 * once. `withoutImp`: the call has no imp, so every floor is 0.
 */
export type StandaloneResult =
  | { ok: true; entries: Iterable<StandaloneEntry>; withoutImp: boolean }
  | { ok: false; status: 400 | 403 | 404; faults: Fault[] }

/** One decision, as a context or the bid log contains it. Money is exact decimal text, CPM. */
export interface DecisionRecord {
  /** Identifies the decision everywhere: context, bid log, ledger. */
  id: string
  bidId: string
  supplier: string
  mode: Mode
  via: Via
  arm: Arm
  propensity: number
  inBa: string
  outBa: string
  /** Standalone only: `price_dsp` of the bid. */
  priceDsp?: string
  currency: string
  /** Milliseconds since the epoch. */
  decidedAt: number
  modelVersion: number
  publisher: string
  domain: string
  /** `seatbid.seat`; absent if the bid response names none. */
  seat?: string | undefined
  /** Absent if none of them is known. */
  facets?: Facets | undefined
  /** Whether a win of this bid may train the model (test, no_rate: never). */
  trains: boolean
  /** The bytes that `Learner.expose` returned; empty if a win does not train the model. */
  features: Uint8Array
  /** Win probability at in_ba and at out_ba, by the model; absent if the model was not asked. */
  winIn?: number | undefined
  winOut?: number | undefined
  /** Multipliers (lambda in CPM of the base currency) and floor (in the bid's currency), seven digits each. */
  theta?: number | undefined
  lambda?: number | undefined
  guard?: Guard | undefined
  floor?: number
}

export type ContextState = 'valid' | 'absent' | 'unexpanded' | 'invalid' | 'expired'

/** The decision that a win notice belongs to, if one was found (CONTRACT 5, 6). */
export interface LookupResult {
  context: ContextState
  by: 'context' | 'bid_log' | null
  record: DecisionRecord | null
  /** The suppliers, if several have decisions with this bid id and the notice names none; otherwise empty. */
  ambiguous: readonly string[]
  /** The shared log cannot be asked, so the decision of a bare bid id is not known yet. */
  provisional: boolean
  /** The decision is older than `attributionWindow`. */
  late: boolean
}

export interface WinMoney {
  cleared: number
  margin: number
}

/** What a win notice says beside its price. */
export interface WinDetails {
  /** The lowest price that would have won, CPM in the bid's currency. */
  minToWin?: number | undefined
  /** false: the bid competed at its own price, because the exchange did not apply the lower one. Default: true. */
  applied?: boolean
  /** Milliseconds since the epoch, for a bid that is pending on no node: when it was won or lost. */
  past?: number | undefined
}

/** The price engine, as proxy and admin use it. */
export interface Engine {
  /**
   * Replaces the settings of all integrations, at the next bid or notice.
   *
   * @param settings the first key encodes contexts, all of them decode
   * @throws if a context key is invalid
   */
  configure(settings: EngineSettings): void
  /**
   * Adds or replaces one integration. Its counters are kept.
   *
   * @param integration checked by its schema
   */
  setIntegration(integration: Integration): void
  /**
   * The next bids of the supplier are left alone. Its notices are still attributed, and its counters are kept.
   *
   * @param supplier identifier of an integration; an unknown one is ignored
   */
  removeIntegration(supplier: string): void
  /**
   * Sets the integrations on hold (factor 1). Those that were on hold before are released.
   *
   * @param suppliers identifiers; `*`: every integration
   */
  setHolds(suppliers: ReadonlySet<string>): void
  /**
   * Sets the integrations whose money cannot be checked: their bids are sent at factor 1. Replaces those that were set before.
   *
   * @param suppliers identifiers
   */
  setUnchecked(suppliers: ReadonlySet<string>): void
  /**
   * What is done with the responses of a supplier: the same object for the same supplier, whatever is configured later.
   *
   * @param supplier identifier; one without an integration has no OPD
   */
  responsesOf(supplier: string): SupplierResponses
  /**
   * Prices the bids of an agent call while `bids` is iterated: for each bid its new price, or null if it keeps its own. null:
   * OPD is off for the supplier. `modelVersion`: of the model that prices.
   *
   * @param supplier identifier; an unknown one has no OPD
   * @param call its bytes must not change while `bids` is iterated
   * @throws an internal error, while `bids` is iterated; it is logged and counted, and quotes nothing of the call
   */
  priceAgentCall(
    supplier: string,
    call: AgentCall,
  ): { bids: Iterator<Mutation | null>; modelVersion: string } | null
  /**
   * Prices the bids of a standalone call (CONTRACT 7).
   *
   * @param body JSON, within the limit of the listener
   * @throws an internal error, here or while `entries` is iterated; it is logged and counted, and quotes nothing of the body
   */
  priceStandalone(supplier: string, body: Buffer): StandaloneResult
  /**
   * Finds the decision of a win notice: in its context, else in the bid log (memory, then the shared one). If
   * `mayUseLog` returns false, no log is read.
   *
   * @param notice `bidId` and `svcOpd` as the notice has them; `ssp`: the supplier that it names, or undefined. Decisions in the
   * log of suppliers that `sees` does not permit do not exist for it.
   * @param mayUseLog is given the state of the context: a caller without a credential must not cost a look-up; default: always
   */
  findDecision(
    notice: {
      bidId: string
      svcOpd: string | undefined
      ssp: string | undefined
      sees?: (supplier: string) => boolean
      /** Milliseconds since the epoch, when the notice arrived; default: now. Later decisions are not its own. */
      receivedAt?: number
    },
    mayUseLog?: (context: ContextState) => boolean,
  ): Promise<LookupResult>
  /**
   * The suppliers of which the bid log of this node has a decision.
   *
   * @param bidId `id` of the bid, as the supplier sent it
   */
  loggedSuppliers(bidId: string): string[]
  /**
   * Decodes one context, expired or not, for the explain call. `record` is null if it cannot be decoded.
   *
   * @param svcOpd the text of the context
   * @param bidId the id of its bid, with which the context is authenticated
   */
  explain(
    svcOpd: string,
    bidId: string,
  ): { context: ContextState; record: DecisionRecord | null; late: boolean }
  /**
   * Units of the currency for one unit of the base currency, above 0; null: no rate is known.
   *
   * @param currency ISO 4217, in capitals
   */
  rate(currency: string): number | null
  /**
   * Counts a win that the ledger recorded, its money, or both. The caller ensures at most one call of each for a decision.
   *
   * @param won whether the event is the one that counts as the win
   * @param money CPM in the bid's currency; null: another event brings it
   */
  recordWin(record: DecisionRecord, won: boolean, money: WinMoney | null): void
  /**
   * Trains the model with a win that the ledger recorded. The caller ensures at most one call for each decision.
   *
   * @param cleared CPM in the bid's currency
   * @param late the notice came after `attributionWindow`, when the bid had trained the model as lost
   */
  learnWin(record: DecisionRecord, cleared: number, late: boolean, details?: WinDetails): void
  /**
   * Trains the model with a loss.
   *
   * @param minToWin the lowest price that would have won, CPM in the bid's currency; null: not known
   * @param past milliseconds since the epoch, for a bid that is pending on no node: when it was lost
   */
  learnLoss(record: DecisionRecord, minToWin: number | null, past?: number | undefined): void
  /**
   * Withdraws the exposure of a bid whose win must not train the model.
   *
   * @param record of the bid. The caller ensures at most one call for each decision.
   */
  withdrawExposure(record: DecisionRecord): void
}

/** Settings that all integrations share. */
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
