/** A learner of fixed answers and a ledger in memory, for tests of what drives them. */
import type { LedgerOfWins } from '../../admin/impressions/lookup.ts'
import { foreignBid } from '../../admin/store/ledger-input.ts'
import type { LedgerRow } from '../../admin/store/tables.ts'
import { type Integration, type OpdConfig, opdSchema } from '../../opd/config.ts'
import type { Decision } from '../../opd/learner.ts'
import type { PricingLearner } from '../../opd/ports.ts'
import type { EligibleBid } from '../../opd/shared/reasons.ts'

interface ModelUpdate {
  kind: 'win' | 'unapplied' | 'past' | 'loss' | 'withdraw'
  features: string
  cleared?: number | null
  minToWin?: number | null
}

interface FixedLearner extends PricingLearner {
  factor: number
  arm: Decision['arm']
  exposed: number[]
  updates: ModelUpdate[]
  fails: boolean
}

/** Answers the same factor; features are the running number of the exposure. */
export function fixedLearner(factor: number, arm: Decision['arm'] = 'treated'): FixedLearner {
  const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()
  const learner: FixedLearner = {
    factor,
    arm,
    exposed: [],
    updates: [],
    fails: false,
    decide: ({ inBa }) => {
      if (learner.fails) throw new Error('a model that fails')
      const { arm } = learner
      const outBa = arm === 'holdout' ? inBa : inBa * learner.factor
      return { outBa, factor: outBa / inBa, arm, propensity: 0.5, winIn: 0.4, winOut: 0.25 }
    },
    expose: (_decision, sent) => {
      learner.exposed.push(sent)
      return Buffer.from(`x${learner.exposed.length}`)
    },
    win: (features, cleared, _now, minToWin) => {
      const least = minToWin === undefined ? {} : { minToWin }
      learner.updates.push({ kind: 'win', features: text(features), cleared, ...least })
    },
    winUnapplied: (features, cleared) => {
      learner.updates.push({ kind: 'unapplied', features: text(features), cleared })
    },
    settlePast: (features, { cleared }) => {
      learner.updates.push({ kind: 'past', features: text(features), cleared })
    },
    lose: (features, minToWin) => {
      learner.updates.push({ kind: 'loss', features: text(features), minToWin })
    },
    withdraw: (features) => {
      learner.updates.push({ kind: 'withdraw', features: text(features) })
    },
  }
  return learner
}

interface MemoryLedger extends LedgerOfWins {
  rows: LedgerRow[]
  fails: boolean
  replaced: number
}

export function memoryLedger(): MemoryLedger {
  const lost = () =>
    new Promise<never>((_resolve, reject) => setImmediate(reject, new Error('lost')))
  const ledger: MemoryLedger = {
    rows: [],
    fails: false,
    replaced: 0,
    async record(entry, same) {
      if (ledger.fails) return lost()
      await new Promise(setImmediate)
      const { decision, event, status } = entry
      const under = ledger.rows.filter(
        (row) =>
          same !== undefined &&
          row.bid_id === entry.bid_id &&
          row.event === event &&
          row.at >= same.since &&
          row.status !== 'rejected' &&
          (same.supplier === null || row.supplier === null || row.supplier === same.supplier),
      )
      const bare = ({ status, reason }: LedgerRow) =>
        status === 'unattributed' && reason !== foreignBid
      const replaced = status === 'attributed' ? under.filter(bare) : []
      ledger.rows = ledger.rows.filter((row) => !replaced.includes(row))
      ledger.replaced += replaced.length
      if (ledger.rows.some((row) => row.decision === decision && row.event === event))
        return 'duplicate'
      if (status === 'unattributed' && under.length > 0) return 'duplicate'
      ledger.rows.push(entry)
      return 'recorded'
    },
    async seenBid(bidId, event, since, only = {}) {
      if (ledger.fails) return lost()
      await new Promise(setImmediate)
      return ledger.rows.some(
        (row) =>
          row.bid_id === bidId &&
          row.event === event &&
          row.at >= since &&
          row.status !== 'rejected' &&
          (only.status === undefined || row.status === only.status) &&
          (only.supplier === undefined || row.supplier === null || row.supplier === only.supplier),
      )
    },
  }
  return ledger
}

export function integration(
  id: string,
  opd: Partial<OpdConfig> = {},
  notices: Integration['notices'] = 'win',
): Integration {
  return { id, opd: { ...opdSchema.parse({ enabled: true }), ...opd }, notices }
}

export function bid(over: Partial<EligibleBid> = {}): EligibleBid {
  const priceText = over.priceText ?? '1.00'
  return {
    bidId: 'bid-1',
    auction: 'auction-1',
    priceText,
    price: Number(priceText),
    currency: 'USD',
    floor: 0,
    rate: 1,
    test: false,
    features: { publisher: 'pub-1', domain: 'news.example' },
    ...over,
  }
}
