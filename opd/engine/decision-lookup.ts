/** Finds decisions in the bid logs: the memory of this node, and the log that all nodes share. */
import type { BidLog, SharedBidLog } from '../ports.ts'
import type { ReportFault } from './fault-log.ts'
import type { DecisionRecord } from './types.ts'

interface DecisionLookup {
  /** Adds features that did not fit in the context. If no log has them, the record no longer trains the model. */
  withFeatures(record: DecisionRecord): Promise<DecisionRecord>
  /** The latest decision of each supplier, or of `ssp` alone, with the bid id. Decisions before `earliest` (milliseconds) are left out. */
  latest(bidId: string, ssp: string | undefined, earliest: number): Promise<DecisionRecord[]>
}

export function createDecisionLookup(
  bidLog: BidLog,
  shared: SharedBidLog | null,
  fault: ReportFault,
): DecisionLookup {
  async function fromShared(bidId: string): Promise<DecisionRecord[]> {
    try {
      return (await shared?.find(bidId)) ?? []
    } catch (error) {
      fault('shared_bid_log', error)
      return []
    }
  }

  return {
    async withFeatures(record) {
      if (!record.teaches || record.features.length > 0) return record
      const same = ({ id }: DecisionRecord) => id === record.id
      const local = bidLog.find(record.bidId).find(same)
      const logged = local ?? (await fromShared(record.bidId)).find(same)
      return logged ?? { ...record, teaches: false }
    },

    async latest(bidId, ssp, earliest) {
      const matches = (record: DecisionRecord) =>
        record.at >= earliest && (ssp === undefined || record.supplier === ssp)
      const local = bidLog.find(bidId).filter(matches)
      if (shared === null) return local
      // Another node may have decided it later, or for another supplier.
      const latest = new Map(local.map((record) => [record.supplier, record]))
      for (const record of (await fromShared(bidId)).filter(matches)) {
        const known = latest.get(record.supplier)
        if (known === undefined || known.at < record.at) latest.set(record.supplier, record)
      }
      return [...latest.values()]
    },
  }
}
