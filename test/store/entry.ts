import type { LedgerEntry } from '../../admin/ports.ts'

/** A win as the ledger keeps it. */
export const entry = (decision: string, over: Partial<LedgerEntry> = {}): LedgerEntry => ({
  decision,
  event: 'win',
  bidId: `bid-${decision}`,
  status: 'attributed',
  by: 'context',
  supplier: 'acme',
  mode: 'revenue',
  arm: 'treated',
  publisher: 'p',
  domain: 'd',
  inBa: '2.10',
  outBa: '1.9',
  cleared: '1.85',
  priceDsp: null,
  currency: 'USD',
  margin: '0.25',
  late: false,
  over: false,
  reason: null,
  decidedAt: 1,
  at: Date.now(),
  ...over,
})
