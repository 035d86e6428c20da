/**
 * Impressions by publisher or domain, whose number is unlimited. The names with the most impressions of each supplier
 * have counters of their own; all others share `other`. The number of counters of all suppliers is limited as well, the
 * busiest suppliers first. A counter never decreases: a promoted name starts at 0, and the count of a demoted name is
 * added to `other` (CONTRACT 10).
 */
import { getOrAdd } from '../../opd/base/get-or-add.ts'

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
