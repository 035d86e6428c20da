/** Whether the ledger has the win of a notice already. */
import type { Engine } from '../../opd/engine/types.ts'
import { clockSlack, type Ledger } from '../ports.ts'
import { ledgerBidId } from './ledger-entry.ts'
import type { Notice } from './notice.ts'

export const isReported = (
  ledger: Ledger,
  { bidId, event }: Notice,
  since: number,
  only: Parameters<Ledger['seenBid']>[3],
): Promise<boolean> => ledger.seenBid(ledgerBidId(bidId), event, since, only)

/** Whether the win of an expired context was recorded before it expired. An expired context does not prove a win. */
export async function wonLongAgo(engine: Engine, ledger: Ledger, notice: Notice): Promise<boolean> {
  const { record } = engine.explain(notice.svcOpd ?? '', notice.bidId)
  if (record === null) return false
  const only = { status: 'attributed' as const, supplier: record.supplier }
  return isReported(ledger, notice, record.at - clockSlack, only)
}
