/** What became of notices. received = attributed + unattributed + duplicate + ignored + rejected. */

import { summable } from '../../opd/engine/stats.ts'
import type { ContextState, DecisionRecord } from '../../opd/engine/types.ts'
import type { LedgerEntry } from '../ports.ts'
import { TopNames } from './top-names.ts'

export type Status = 'attributed' | 'unattributed' | 'duplicate' | 'ignored' | 'rejected'

export interface SupplierMoney {
  /** Wins that the sums are of. */
  priced: number
  cleared: number
  margin: number
  late: number
  over: number
  /** Decided and cleared prices of attributed wins, base currency: what was asked against what was paid. */
  out: number
}

const noMoney = (): SupplierMoney => ({
  priced: 0,
  cleared: 0,
  margin: 0,
  late: 0,
  over: 0,
  out: 0,
})

/** Label values of one counter, joined; bounded by suppliers x modes x the words above. */
const join = (...labels: string[]) => labels.join('\t')
const longestTable = 100_000

export class ImpressionCounters {
  received = 0
  unavailable = 0
  /** ssp, mode, status, by, event. */
  readonly impressions = new Map<string, number>()
  /** ssp, mode. */
  readonly money = new Map<string, SupplierMoney>()
  readonly contexts: Record<ContextState, number> = {
    valid: 0,
    absent: 0,
    unexpanded: 0,
    invalid: 0,
    expired: 0,
  }
  /** Margin-balancing wins whose context could not be read: counted as money, kept from the controller. */
  unreadableMargin = 0
  /** Refused notices of strangers beyond what the ledger keeps of them. */
  refusedUnkept = 0
  readonly publishers = new TopNames()
  readonly domains = new TopNames()

  counted(ssp: string, mode: string, status: Status, by: string, event: string): void {
    this.received++
    let key = join(ssp, mode, status, by, event)
    // what has no row of its own any more still adds up
    if (this.impressions.size >= longestTable && !this.impressions.has(key))
      key = join('', '', status, 'none', 'none')
    this.impressions.set(key, (this.impressions.get(key) ?? 0) + 1)
  }

  /** One impression of its publisher and domain. */
  named({ supplier, mode, publisher, domain }: DecisionRecord): void {
    this.publishers.add(supplier, mode, publisher)
    this.domains.add(supplier, mode, domain)
  }

  /** An attributed win; `rate` null: its currency is not summed with the others. */
  attributed(record: DecisionRecord, entry: LedgerEntry, rate: number | null): void {
    const key = join(record.supplier, record.mode)
    const money = this.money.get(key) ?? noMoney()
    this.money.set(key, money)
    if (entry.late) money.late++
    if (entry.over) money.over++
    if (entry.margin === null || rate === null) return
    money.priced++
    money.cleared += summable(Number(entry.cleared) / rate)
    money.margin += summable(Number(entry.margin) / rate)
    // asked and paid are compared: a price that is no sum has no other side either
    if (summable(Number(entry.cleared) / rate) !== 0 || Number(entry.cleared) === 0)
      money.out += summable(Number(record.outBa) / rate)
  }
}
