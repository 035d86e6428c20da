/** The states of all suppliers and modes, and what of them deltas and snapshots contain. */

import { Evidence, readRecords, writeRecords } from './kept.ts'
import { Segments } from './segments.ts'
import { SupplierState } from './supplier-state.ts'
import { WinRateCusum } from './win-rate-cusum.ts'

const suppliersKept = 1000
/** Bids by which another supplier's multipliers are worth copying. */
const settledIn = 2000

export interface Saved {
  suppliers: [number, Parameters<SupplierState['restore']>[0]][]
  segments: Parameters<Segments['restore']>[0]
  fall: ReturnType<WinRateCusum['saved']>
  pool: { sums: number[]; age: number }
}

export class Controls {
  /** All suppliers together: what the model is wrong by, it is mostly wrong by everywhere. */
  private readonly pool = new Evidence(2)
  private readonly segments = new Segments()
  private readonly suppliers = new Map<number, SupplierState>()
  /** The win rate of all suppliers together: it falls sooner than one can be sure of, and later, for each. */
  private readonly fall = new WinRateCusum(3_600_000, 10)
  private now = 0
  private patience = 30_000

  of(supplier: number): SupplierState {
    return this.suppliers.get(supplier) ?? this.admit(supplier)
  }

  private admit(supplier: number): SupplierState {
    const state = new SupplierState(this.pool, this.segments)
    for (const other of this.suppliers.values())
      if (other.exposures >= settledIn) {
        state.controller.startFrom(other.controller)
        break
      }
    if (this.suppliers.size < suppliersKept) this.suppliers.set(supplier, state)
    return state
  }

  advance(now: number, patience: number): void {
    this.now = now
    this.patience = patience
    const all = { bids: 0, wins: 0 }
    const usual = Math.max(0.5, Math.min(1.2, this.fall.ratio))
    for (const state of this.suppliers.values()) {
      state.judge(now)
      const own = state.guards.mature(now, patience)
      all.bids += own.bids
      all.wins += own.wins
      if (own.bids > 0 && state.guards.compare(own, usual, now) && state.guarded)
        state.guards.fell(now)
    }
    if (all.bids > 0 && this.fall.seen(all.bids, all.wins, 1, now))
      for (const state of this.suppliers.values()) if (state.guarded) state.guards.fell(now)
  }

  /** Records of supplier and sums, of those with news. */
  delta(): Uint8Array {
    const news = [...this.suppliers].filter(([, { evidence }]) =>
      evidence.fresh.some((sum) => sum !== 0),
    )
    const records = writeRecords(news.map(([supplier, { evidence }]) => [supplier, evidence.fresh]))
    for (const [, { evidence }] of news) evidence.fresh.fill(0)
    return records
  }

  merge(records: Uint8Array): void {
    for (const [supplier, sums] of readRecords(records))
      this.of(supplier).merge(sums, this.now, this.patience)
  }

  /** One by one, to be called: a thousand suppliers are 2 MB of text. */
  saved(): (() => Saved['suppliers'][number])[] {
    return Array.from(this.suppliers, ([id, state]) => () => [id, state.saved()])
  }

  /** What is saved besides. */
  rest(): Omit<Saved, 'suppliers'> {
    const { sums, age } = this.pool
    return {
      segments: this.segments.saved(),
      fall: this.fall.saved(),
      pool: { sums: [...sums], age },
    }
  }

  restore({ suppliers, segments, fall, pool }: Saved): void {
    this.pool.restore(pool.sums, pool.age)
    for (const [id, saved] of suppliers) this.of(id).restore(saved)
    this.segments.restore(segments)
    this.fall.restore(fall)
  }
}
