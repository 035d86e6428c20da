/** The state of integrations in the engine, for the admin listener and the metrics. */
import type { LiveState } from '../admin/fleet/live-schema.ts'
import type { Integration, OpdConfig } from '../opd/config.ts'
import type { BidweirEngine } from '../opd/engine/engine.ts'
import { type DayAmount, dayOf } from '../opd/pricing/day-reductions.ts'

/** The opd block of an integration that prices or would price; null: OPD is off. */
export function activeOpd(integration: Integration | null): OpdConfig | null {
  const opd = integration?.opd ?? null
  return opd === null || opd === 'invalid' || opd.enabled === false ? null : opd
}

/** null: there is no such integration. */
export function opdState(integration: Integration | null): LiveState | null {
  if (integration === null) return null
  const { opd } = integration
  if (opd === null || opd === 'invalid')
    return { state: opd ?? 'off', mode: 'revenue', minWinRate: 0, minSpend: 0 }
  const { enabled, mode, minWinRate, minSpend } = opd
  const state = enabled === false ? 'off' : enabled === 'shadow' ? 'shadow' : 'on'
  return { state, mode, minWinRate, minSpend }
}

export interface DayCap extends DayAmount {
  cap: number
}

/** Suppliers with a cap of a day (`opd.caps.perDay`), and what OPD took off their bids today. */
export function* dayCaps(
  engine: Pick<BidweirEngine, 'integration' | 'reductions'>,
  suppliers: Iterable<string>,
  time: number,
): Generator<DayCap> {
  for (const supplier of suppliers) {
    const opd = engine.integration(supplier)?.opd
    if (opd == null || opd === 'invalid' || opd.caps.perDay === null) continue
    const amount = engine.reductions.amountOf(supplier, time)
    yield { day: dayOf(time), supplier, amount, cap: opd.caps.perDay }
  }
}

export interface OpdLimit {
  supplier: string
  kind: 'minWinRate' | 'minSpend'
  /** Relative to the holdout, 0 to 1. */
  limit: number
}

/** The limits of the suppliers whose bids OPD prices, or would price in shadow mode. */
export function* opdLimits(
  engine: Pick<BidweirEngine, 'integration'>,
  suppliers: Iterable<string>,
): Generator<OpdLimit> {
  for (const supplier of suppliers) {
    const opd = activeOpd(engine.integration(supplier))
    if (opd === null) continue
    yield { supplier, kind: 'minWinRate', limit: opd.minWinRate }
    yield { supplier, kind: 'minSpend', limit: opd.minSpend }
  }
}
