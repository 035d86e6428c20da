/**
 * Impressions by name where names are without number: the busiest of each supplier have a counter of
 * their own, all others share `other`. A counter never falls: who is promoted starts at 0, who is
 * demoted stays in `other` (CONTRACT 10).
 */
export interface NameSample {
  ssp: string
  mode: string
  name: string
  value: number
}

interface Row {
  total: number
  /** Since the last promotion round, halved by each. */
  recent: number
}

const most = 200
/** Names that wait for a counter; beyond, a new one takes the place of the oldest. */
const mostWaiting = 1000
const noName = 'unknown'
/** Of all that have no counter; who is called so has none either, or a series would stand twice. */
const others = 'other'

class Table {
  private readonly named = new Map<string, Row>()
  private readonly waiting = new Map<string, number>()
  private other = 0

  add(name: string): void {
    if (name === others) return void this.other++
    let row = this.named.get(name)
    if (row === undefined && this.named.size < most) {
      row = { total: 0, recent: 0 }
      this.named.set(name, row)
    }
    if (row !== undefined) {
      row.total++
      row.recent++
      return
    }
    this.other++
    const before = this.waiting.get(name)
    if (before === undefined && this.waiting.size >= mostWaiting) {
      const [oldest] = this.waiting.keys()
      this.waiting.delete(oldest!)
    }
    this.waiting.set(name, (before ?? 0) + 1)
  }

  /** Gives the counters to the busiest; one that waits must be busier by a quarter. */
  promote(): void {
    if (this.waiting.size === 0) return
    const quiet = [...this.named].sort(([, a], [, b]) => a.recent - b.recent)
    const busy = [...this.waiting].sort(([, a], [, b]) => b - a)
    for (const [index, [name, count]] of busy.entries()) {
      const last = quiet[index]
      if (last === undefined || count <= last[1].recent * 1.25) break
      this.named.delete(last[0])
      this.other += last[1].total
      this.named.set(name, { total: 0, recent: count })
    }
    this.waiting.clear()
    for (const row of this.named.values()) row.recent /= 2
  }

  *samples(ssp: string, mode: string): Generator<NameSample> {
    for (const [name, { total }] of this.named) yield { ssp, mode, name, value: total }
    if (this.other > 0) yield { ssp, mode, name: others, value: this.other }
  }
}

export class TopNames {
  /** By supplier, then mode. */
  private readonly tables = new Map<string, Map<string, Table>>()

  add(ssp: string, mode: string, name: string): void {
    const modes = this.tables.get(ssp) ?? new Map<string, Table>()
    if (modes.size === 0) this.tables.set(ssp, modes)
    let table = modes.get(mode)
    if (table === undefined) {
      table = new Table()
      modes.set(mode, table)
    }
    table.add(name === '' ? noName : name)
  }

  promote(): void {
    for (const modes of this.tables.values()) for (const table of modes.values()) table.promote()
  }

  /** At a scrape, which takes one supplier after the other: each promotes when its turn comes. */
  *scraped(): Generator<NameSample> {
    for (const [ssp, modes] of this.tables)
      for (const [mode, table] of modes) {
        table.promote()
        yield* table.samples(ssp, mode)
      }
  }

  *samples(): Generator<NameSample> {
    for (const [ssp, modes] of this.tables)
      for (const [mode, table] of modes) yield* table.samples(ssp, mode)
  }
}
