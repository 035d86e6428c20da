/** Finds the decision of a win notice: in its context, else in the bid logs of this node and of all nodes. */
import type { BidLog, SharedBidLog } from '../ports.ts'
import type { ContextCodec } from '../pricing/context.ts'
import type { ReportFault } from '../shared/fault-log.ts'
import type { DecisionRecord, Engine, EngineSettings, LookupResult } from '../types.ts'

/** Milliseconds that the clocks of two nodes may be apart: all have that of the database, to half a second. */
const maxClockSkew = 5000

interface AttributionDeps {
  bidLog: BidLog
  shared: SharedBidLog | null
  now: () => number
  fault: ReportFault
  /** They change with the configuration. */
  codec: () => ContextCodec
  settings: () => EngineSettings
}

export function createAttribution(
  deps: AttributionDeps,
): Pick<Engine, 'findDecision' | 'loggedSuppliers' | 'explain'> {
  const { bidLog, shared, now } = deps

  /** null: the shared log cannot be asked. */
  async function fromShared(bidId: string): Promise<DecisionRecord[] | null> {
    if (shared === null) return []
    try {
      return await shared.find(bidId)
    } catch (error) {
      deps.fault('shared_bid_log', error)
      return null
    }
  }

  /** Adds features that did not fit in the context. If no log has them, the record no longer trains the model. */
  async function withFeatures(record: DecisionRecord): Promise<DecisionRecord> {
    if (!record.trains || record.features.length > 0) return record
    const same = ({ id }: DecisionRecord) => id === record.id
    const local = bidLog.find(record.bidId).find(same)
    const logged = local ?? (await fromShared(record.bidId))?.find(same)
    return logged ?? { ...record, trains: false }
  }

  /**
   * The latest decision of each supplier, or of `ssp` alone, with the bid id. Decisions before `earliest` are left out.
   * null: the shared log cannot be asked. Another node may then have decided it later, or for another supplier, so that
   * the log of this node alone would be a guess.
   */
  async function latest(bidId: string, ssp: string | undefined, earliest: number) {
    const matches = (record: DecisionRecord) =>
      record.at >= earliest && (ssp === undefined || record.supplier === ssp)
    const local = bidLog.find(bidId).filter(matches)
    if (shared === null) return local
    const elsewhere = await fromShared(bidId)
    if (elsewhere === null) return null
    const latest = new Map(local.map((record) => [record.supplier, record]))
    for (const record of elsewhere.filter(matches)) {
      const known = latest.get(record.supplier)
      if (known === undefined || known.at < record.at) latest.set(record.supplier, record)
    }
    return [...latest.values()]
  }

  const isLate = (record: DecisionRecord, at: number) =>
    record.at < at - deps.settings().attributionWindow

  return {
    async findDecision(notice, mayUseLog): Promise<LookupResult> {
      const { bidId, svcOpd, ssp, sees, at = now() } = notice
      // of a notice that arrived earlier: its bid was decided before it
      const last = notice.at === undefined ? Number.POSITIVE_INFINITY : at + maxClockSkew
      const { state, record } = deps.codec().decode(svcOpd, bidId, at)
      const result = { context: state, ambiguous: [], provisional: false }
      if (state === 'valid' && record !== null) {
        const whole = await withFeatures(record)
        return { ...result, by: 'context', record: whole, late: isLate(record, at) }
      }
      const earliest = at - deps.settings().contextTtl
      const logged = mayUseLog?.(state) === false ? [] : await latest(bidId, ssp, earliest)
      const nothing = { ...result, by: null, record: null, late: false }
      if (logged === null) return { ...nothing, provisional: true }
      const found = logged.filter(
        (record) => record.at <= last && (sees?.(record.supplier) ?? true),
      )
      const [only] = found
      if (only !== undefined && found.length === 1)
        return { ...result, by: 'bid_log', record: only, late: isLate(only, at) }
      const ambiguous = found.map(({ supplier }) => supplier)
      return { ...nothing, ambiguous }
    },

    loggedSuppliers: (bidId) => bidLog.find(bidId).map(({ supplier }) => supplier),

    explain(svcOpd, bidId) {
      const at = now()
      const { state, record } = deps.codec().decode(svcOpd, bidId, at)
      return { context: state, record, late: record !== null && isLate(record, at) }
    },
  }
}
