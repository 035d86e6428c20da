import type { Store } from '../../admin/store/index.ts'
import { createLedgerDays, dayOfRow } from '../../admin/store/ledger-sql.ts'
import { type LedgerRow, ledgerTable } from '../../admin/store/tables.ts'

/** A win as the ledger keeps it. */
export const entry = (decision: string, over: Partial<LedgerRow> = {}): LedgerRow => ({
  decision,
  event: 'win',
  bid_id: `bid-${decision}`,
  status: 'attributed',
  by: 'context',
  supplier: 'acme',
  mode: 'revenue',
  arm: 'treated',
  via: 'proxy',
  publisher: 'p',
  domain: 'd',
  seat: null,
  ...{ country: null, device: null, format: null, size: null, deal: null },
  in_ba: '2.10',
  out_ba: '1.9',
  cleared: '1.85',
  price_dsp: null,
  currency: 'USD',
  margin: '0.25',
  late: 0,
  over: 0,
  applied: null,
  reason: null,
  decided_at: over.at ?? Date.now(),
  at: Date.now(),
  ...over,
})

const nothing = {
  ...{ by: null, supplier: null, mode: null, arm: null, via: null },
  ...{ publisher: null, domain: null },
}
const noMoney = { in_ba: null, out_ba: null, currency: null, margin: null, decided_at: null }

/** A win that nobody could place. */
export const unplaced = (decision: string, over: Partial<LedgerRow> = {}): LedgerRow =>
  entry(decision, {
    ...nothing,
    ...noMoney,
    status: 'unattributed',
    reason: 'unknown_bid',
    ...over,
  })

/** Inserts rows as a process that is killed right after its commit. */
export async function insertRows(
  { db, postgres }: Pick<Store, 'db' | 'postgres'>,
  rows: LedgerRow[],
): Promise<void> {
  const table = db.insertInto(ledgerTable(postgres))
  if (!postgres) return void (await table.values(rows).execute())
  const partitioned = rows.map((row) => ({ ...row, day: dayOfRow(row) }))
  await createLedgerDays(db).ensure(partitioned.map(({ day }) => day))
  await table.values(partitioned).execute()
}
