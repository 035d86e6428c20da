/** Counters of win notices: received = attributed + unattributed + duplicate + ignored + rejected. */

import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { summable } from '../../opd/pricing/stats.ts'
import type { ContextState, DecisionRecord } from '../../opd/types.ts'
import type { LedgerRow } from '../store/tables.ts'

/**
 * Impressions by publisher or domain, whose number is unlimited. The names with the most impressions of each supplier
 * have counters of their own; all others share `other`. The number of counters of all suppliers is limited as well, the
 * busiest suppliers first. A counter never decreases: a promoted name starts at 0, and the count of a demoted name is
 * added to `other` (CONTRACT 10).
 */

interface NameSample {
  ssp: string
  mode: string
  name: string
  value: number
}

interface Row {
  total: number
  /** Impressions since the last promotion; each promotion halves it. */
  recent: number
}

/** Names of all suppliers, which take up to 1 MB of a scrape. */
const maxTotal = 10_000
/** Candidates for a counter; beyond, a new one replaces the oldest. */
const maxCandidates = 1000
const noName = 'unknown'
/** The shared name. A publisher with this name never has its own counter, or the series would be duplicated. */
const others = 'other'

/** Control characters and line separators, which some readers of the text format take for the end of a line. */
const breaks = /[\p{Cc}\u2028\u2029]/gu

/** The name as it is shown: such characters as `\\u{d}`. Names that are then equal share a counter. */
const shownName = (name: string) =>
  name.replace(breaks, (found) => `\\u{${found.codePointAt(0)!.toString(16)}}`)

class Table {
  private readonly named = new Map<string, Row>()
  private readonly candidates = new Map<string, number>()
  private other = 0
  private limit: number
  /** Impressions; each promotion halves them. */
  recent = 0

  constructor(limit: number) {
    this.limit = limit
  }

  get size(): number {
    return this.named.size
  }

  countName(name: string): void {
    this.recent++
    if (name === others) return void this.other++
    let row = this.named.get(name)
    if (row === undefined && this.named.size < this.limit) {
      row = { total: 0, recent: 0 }
      this.named.set(name, row)
    }
    if (row !== undefined) {
      row.total++
      row.recent++
      return
    }
    this.other++
    const before = this.candidates.get(name)
    if (before === undefined && this.candidates.size >= maxCandidates) {
      const [oldest] = this.candidates.keys()
      this.candidates.delete(oldest!)
    }
    this.candidates.set(name, (before ?? 0) + 1)
  }

  /**
   * Gives the counters to the names with the most impressions. A candidate needs 25 % more than the name that it
   * replaces.
   */
  promote(limit: number): void {
    this.limit = limit
    this.recent /= 2
    const { candidates, named } = this
    if (candidates.size === 0 && named.size <= limit) return
    const leastRecent = [...named].sort(([, a], [, b]) => a.recent - b.recent)
    for (const [name] of leastRecent.splice(0, named.size - limit)) this.demote(name)
    const ranked = [...candidates].sort(([, a], [, b]) => b - a)
    for (const [index, [name, count]] of ranked.entries()) {
      const last = leastRecent[index]
      if (last === undefined || count <= last[1].recent * 1.25) break
      this.demote(last[0])
      named.set(name, { total: 0, recent: count })
    }
    candidates.clear()
    for (const row of named.values()) row.recent /= 2
  }

  private demote(name: string): void {
    this.other += this.named.get(name)!.total
    this.named.delete(name)
  }

  *samples(ssp: string, mode: string): Generator<NameSample> {
    for (const [name, { total }] of this.named) yield { ssp, mode, name, value: total }
    if (this.other > 0) yield { ssp, mode, name: others, value: this.other }
  }
}

export class TopNames {
  /** By supplier, then mode. */
  private readonly tables = new Map<string, Map<string, Table>>()
  private readonly most: () => number

  /** `most`: names of a supplier that have a counter of their own; 0: nothing is counted. */
  constructor(most: () => number) {
    this.most = most
  }

  countName(ssp: string, mode: string, name: string): void {
    if (this.most() === 0) return
    const modes = getOrAdd(this.tables, ssp, () => new Map<string, Table>())
    const table = getOrAdd(modes, mode, () => new Table(this.most()))
    table.countName(name === '' ? noName : shownName(name))
  }

  /**
   * The samples of a scrape, which is written supplier by supplier. Each table is promoted just before its samples.
   */
  *samples(): Generator<NameSample> {
    const tables = [...this.tables].flatMap(([ssp, modes]) =>
      [...modes].map(([mode, table]) => ({ ssp, mode, table, recent: table.recent })),
    )
    tables.sort((one, other) => other.recent - one.recent)
    if (this.most() === 0) return
    let left = maxTotal
    for (const { ssp, mode, table } of tables) {
      table.promote(Math.min(this.most(), left))
      left -= table.size
      yield* table.samples(ssp, mode)
    }
  }
}

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

/** The counters of notices of this process. They never decrease. */
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
