/** Decisions as the bid logs know them: this node's memory, and what all nodes share. */

import type { BidLog, SharedBidLog } from '../ports.ts'
import type { NoteFault } from './fault-log.ts'
import type { DecisionRecord } from './types.ts'

interface Logs {
  /** Features that had no room in a context are in the logs; without them it teaches nothing. */
  withFeatures(record: DecisionRecord): Promise<DecisionRecord>
  /** The latest decision under the bid id of each supplier, or of `ssp` alone, not before `earliest` (milliseconds). */
  latest(bidId: string, ssp: string | undefined, earliest: number): Promise<DecisionRecord[]>
}

export function createLogs(bidLog: BidLog, shared: SharedBidLog | null, fault: NoteFault): Logs {
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
      const own = bidLog.find(record.bidId).find(same)
      const logged = own ?? (await fromShared(record.bidId)).find(same)
      return logged ?? { ...record, teaches: false }
    },

    async latest(bidId, ssp, earliest) {
      const fits = (record: DecisionRecord) =>
        record.at >= earliest && (ssp === undefined || record.supplier === ssp)
      const own = bidLog.find(bidId).filter(fits)
      if (shared === null) return own
      // another node may have decided it later, or for another supplier
      const latest = new Map(own.map((record) => [record.supplier, record]))
      for (const record of (await fromShared(bidId)).filter(fits)) {
        const known = latest.get(record.supplier)
        if (known === undefined || known.at < record.at) latest.set(record.supplier, record)
      }
      return [...latest.values()]
    },
  }
}
