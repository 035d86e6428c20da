import type { DecisionObserver } from '../../opd/ports.ts'
import type { DecisionRecord } from '../../opd/types.ts'

/** A bid as the engine decided it. */
export const decided = (over: Partial<DecisionRecord> = {}): DecisionRecord => ({
  id: 'd',
  bidId: 'b',
  supplier: 'acme',
  mode: 'revenue',
  via: 'proxy',
  arm: 'treated',
  propensity: 1,
  inBa: '2',
  outBa: '1.9',
  currency: 'USD',
  decidedAt: 1_790_000_000_000,
  modelVersion: 0,
  publisher: 'p',
  domain: 'd',
  trains: true,
  features: new Uint8Array(),
  ...over,
})

/** Gives a decision to the observer of its supplier. Prices are CPM in its currency. */
export const observe = (to: DecisionObserver, record: DecisionRecord, inBa = 2, outBa = 1): void =>
  to.observerOf(record.supplier).decided(record, inBa, outBa)
