/** The states of all suppliers and modes, and their parts of deltas and snapshots. */

import { Evidence, readRecords, writeRecords } from './evidence.ts'
import { SupplierState, TriedBids } from './supplier-state.ts'
import { suppliersKept, Visits } from './visits.ts'
import { WinRateCusum } from './win-rate-cusum.ts'

/** Suppliers that are restored in one slice. */
const suppliersAtOnce = 50

export interface Saved {
  suppliers: [number, Parameters<SupplierState['restoreState']>[0]][]
  fall: ReturnType<WinRateCusum['saved']>
  pool: { sums: number[]; age: number; from: number }
  tried: ReturnType<TriedBids['saved']>
  clock: [now: number, noticeTimeout: number]
}

export class SupplierStates {
  /** Evidence of all suppliers together: the error of the model is similar for all of them. */
  private readonly pool = new Evidence(2)
  readonly tried = new TriedBids()
  private readonly suppliers = new Map<number, SupplierState>()
  /** Of suppliers by the order in which they were added. */
  private readonly states: SupplierState[] = []
  private readonly visits = new Visits()
  /** Wins of all suppliers over the expected ones: a fall of all is detected sooner than that of a single one. */
  private readonly fall = new WinRateCusum(3_600_000, 10)
  private now = 0
  private noticeTimeout = 30_000

  /**
   * The state of a supplier and mode, new at the first call. It is not kept if there are `suppliersKept` already.
   *
   * @param supplier as `supplierKey` makes it of supplier and mode
   */
  stateOf(supplier: number): SupplierState {
    return this.suppliers.get(supplier) ?? this.admit(supplier)
  }

  private admit(supplier: number): SupplierState {
    const { states, visits } = this
    const isKept = states.length < suppliersKept
    const state = new SupplierState(
      this.pool,
      this.tried,
      isKept ? visits.addSupplier(states.length) : null,
    )
    if (isKept) {
      this.suppliers.set(supplier, state)
      states.push(state)
    }
    return state
  }

  /**
   * Measures what is kept, and looks for falls of the win rate.
   *
   * @param now milliseconds since the epoch
   * @param noticeTimeout milliseconds after which a bid without a notice counts as not won
   */
  advance(now: number, noticeTimeout: number): void {
    this.now = now
    this.noticeTimeout = noticeTimeout
    const all = { expected: 0, wins: 0 }
    this.visits.run(now - noticeTimeout, (nth) => {
      const state = this.states[nth]!
      state.measure()
      const matured = state.guards.mature(now, noticeTimeout)
      // By the supplier's own past: a new one that wins less often, or more traffic of such a one, is no fall of all.
      const expected = state.guards.expects(matured.bids)
      if (expected !== null) {
        all.expected += expected
        all.wins += matured.wins
      }
      if (matured.bids > 0 && state.guards.compare(matured, now) && state.guarded)
        state.guards.dropped()
      return state.guards.oldest
    })
    if (!(all.expected > 0 && this.fall.seen(all.expected, all.wins, now))) return
    for (const { guarded, guards } of this.states)
      if (guarded && guards.expects(1) !== null) guards.dropped()
  }

  /**
   * The model was fitted. Nothing was measured before the first fit.
   *
   * @param now milliseconds since the epoch
   */
  fitted(now: number): void {
    const { pool, states } = this
    if (pool.from > 0) return
    pool.begin(now)
    for (const { evidence } of states) evidence.reset()
  }

  /** The sums since the last delta, of the suppliers that have any. */
  delta(): Uint8Array {
    const news = [...this.suppliers].filter(([, { evidence }]) =>
      evidence.fresh.some((sum) => sum !== 0),
    )
    const records = writeRecords(news.map(([supplier, { evidence }]) => [supplier, evidence.fresh]))
    for (const [, { evidence }] of news) evidence.fresh.fill(0)
    return records
  }

  /** @param records sums of another node since its last delta, as its `delta` returned them */
  merge(records: Uint8Array): void {
    for (const [supplier, sums] of readRecords(records))
      this.stateOf(supplier).merge(sums, this.now, this.noticeTimeout)
  }

  /** A function for each supplier, because the state of a thousand suppliers is 2 MB of text. */
  saved(): (() => Saved['suppliers'][number])[] {
    return Array.from(this.suppliers, ([id, state]) => () => [id, state.saved()])
  }

  /** The rest of what is saved. */
  rest(): Omit<Saved, 'suppliers'> {
    const { sums, age, from } = this.pool
    return {
      fall: this.fall.saved(),
      pool: { sums: [...sums], age, from },
      tried: this.tried.saved(),
      clock: [this.now, this.noticeTimeout],
    }
  }

  /** @param saved what `saved` and `rest` returned; restored in slices */
  *restoring({ suppliers, fall, pool, tried, clock }: Saved): Generator<undefined, void> {
    this.tried.restoreCounts(tried)
    ;[this.now, this.noticeTimeout] = clock
    this.pool.restoreSums(pool.sums, pool.age, pool.from)
    for (const [n, [id, saved]] of suppliers.entries()) {
      this.stateOf(id).restoreState(saved)
      if (n % suppliersAtOnce === 0) yield
    }
    this.fall.restoreHours(fall)
  }
}
