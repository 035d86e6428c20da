/** Counters of win notices: received = attributed + unattributed + duplicate + ignored + rejected. */

import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { ContextState, DecisionRecord } from '../../opd/types.ts'
import type { LedgerRow } from '../store/tables.ts'
import { TopNames } from './top-names.ts'

export type Status = 'attributed' | 'unattributed' | 'duplicate' | 'ignored' | 'rejected'

export interface SupplierMoney {
  /** Wins that the sums contain. */
  priced: number
  cleared: number
  margin: number
  late: number
  over: number
  /** Wins that cleared below half of out_ba. */
  low: number
  /** Sum of out_ba of the same wins, base currency. */
  out: number
}

const noMoney = (): SupplierMoney => ({
  priced: 0,
  cleared: 0,
  margin: 0,
  late: 0,
  over: 0,
  low: 0,
  out: 0,
})

/** The key of a counter: its label values. There are at most suppliers x modes x statuses of them. */
const join = (...labels: string[]) => labels.join('\t')
const maxKeys = 100_000

const defaultMost = () => ({ publishers: 200, domains: 200 })

export class ImpressionCounters {
  received = 0
  unavailable = 0
  /** Keys: ssp, mode, status, by, event. */
  readonly impressions = new Map<string, number>()
  /** Keys: ssp, mode. */
  readonly money = new Map<string, SupplierMoney>()
  readonly contexts: Record<ContextState, number> = {
    valid: 0,
    absent: 0,
    unexpanded: 0,
    invalid: 0,
    expired: 0,
  }
  /** Wins in margin mode with an unreadable context: they count as money and do not train the model. */
  unreadableMargin = 0
  /** Unauthenticated notices that were refused and not stored in the ledger. */
  refusedUnkept = 0
  readonly publishers: TopNames
  readonly domains: TopNames

  /** Names of a supplier with counters of their own, by publisher and by domain. */
  constructor(most: () => { publishers: number; domains: number } = defaultMost) {
    this.publishers = new TopNames(() => most().publishers)
    this.domains = new TopNames(() => most().domains)
  }

  /** Wins of bids that an agent call had lowered, by supplier: where the exchange applied the lower price, and where not. */
  readonly mutations = new Map<string, { applied: number; refused: number }>()

  countMutation(ssp: string, applied: boolean): void {
    const counts = getOrAdd(this.mutations, ssp, () => ({ applied: 0, refused: 0 }))
    counts[applied ? 'applied' : 'refused']++
  }

  /** Loss notices. Keys: ssp, status. */
  readonly losses = new Map<string, number>()

  countLoss(ssp: string, status: string): void {
    const key = join(ssp, status)
    this.losses.set(key, (this.losses.get(key) ?? 0) + 1)
  }

  countNotice(ssp: string, mode: string, status: Status, by: string, event: string): void {
    this.received++
    let key = join(ssp, mode, status, by, event)
    // beyond the limit, the status is still counted, without other labels
    if (this.impressions.size >= maxKeys && !this.impressions.has(key))
      key = join('', '', status, 'none', 'none')
    this.impressions.set(key, (this.impressions.get(key) ?? 0) + 1)
  }

  /** Counts one impression of its publisher and domain. */
  countImpression({ supplier, mode, publisher, domain }: DecisionRecord): void {
    this.publishers.countName(supplier, mode, publisher)
    this.domains.countName(supplier, mode, domain)
  }

  /** Counts an attributed win; `rate` null: its currency cannot be converted, so its money is not summed. */
  countWin(record: DecisionRecord, row: LedgerRow, rate: number | null): void {
    const money = getOrAdd(this.money, join(record.supplier, record.mode), noMoney)
    money.late += row.late
    money.over += row.over
    if (row.margin === null || rate === null) return
    const cleared = summable(Number(row.cleared) / rate)
    money.priced++
    if (Number(row.cleared) < Number(record.outBa) / 2) money.low++
    money.cleared += cleared
    money.margin += summable(Number(row.margin) / rate)
    // the two sums are compared: if the cleared price is too large to sum, out_ba is left out too
    if (cleared !== 0 || Number(row.cleared) === 0)
      money.out += summable(Number(record.outBa) / rate)
  }
}
