/** Suppliers with a cap of a day (`opd.caps.perDay`), and what OPD took off their bids today. */
import { type DayAmount, dayOf } from '../opd/engine/day-reductions.ts'
import type { BidweirEngine } from '../opd/engine/engine.ts'

export interface DayCap extends DayAmount {
  cap: number
}

export function* dayCaps(
  engine: Pick<BidweirEngine, 'integration' | 'reductions'>,
  suppliers: Iterable<string>,
  at: number,
): Generator<DayCap> {
  for (const supplier of suppliers) {
    const opd = engine.integration(supplier)?.opd
    if (opd == null || opd === 'invalid' || opd.caps.perDay === null) continue
    const amount = engine.reductions.of(supplier, at)
    yield { day: dayOf(at), supplier, amount, cap: opd.caps.perDay }
  }
}
