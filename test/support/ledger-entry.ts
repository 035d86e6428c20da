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
  seat: null,
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

const nothing = { by: null, supplier: null, mode: null, arm: null, publisher: null, domain: null }
const noMoney = { inBa: null, outBa: null, currency: null, margin: null, decidedAt: null }

/** A win that nobody could place. */
export const unplaced = (decision: string, over: Partial<LedgerEntry> = {}): LedgerEntry =>
  entry(decision, {
    ...nothing,
    ...noMoney,
    status: 'unattributed',
    reason: 'unknown_bid',
    ...over,
  })
