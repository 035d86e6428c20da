/**
 * Work by key: some works go side by side, some want to be alone with what they read and write. In order of arrival:
 *
 *   beside ─┐
 *   beside ─┴▶ alone ─▶ alone ─┬▶ beside
 *                              └▶ beside
 */
interface Row {
  /** The last that wanted to be alone. */
  alone: Promise<unknown> | null
  /** Those that came after it. */
  beside: Set<Promise<unknown>>
}

export class Turns {
  private readonly rows = new Map<string, Row>()

  /** Side by side with others of its kind. */
  async beside<T>(key: string, work: () => Promise<T>): Promise<T> {
    const row = this.row(key)
    const mine = row.alone === null ? work() : row.alone.then(work)
    const over = mine.catch(() => undefined)
    row.beside.add(over)
    try {
      return await mine
    } finally {
      row.beside.delete(over)
      this.tidy(key, row)
    }
  }

  /** After all that came before, and before all that come after. */
  async alone<T>(key: string, work: () => Promise<T>): Promise<T> {
    const row = this.row(key)
    const before = Promise.all([row.alone, ...row.beside])
    const mine = before.then(work)
    // whatever becomes of it, the next has its turn
    const over = mine.catch(() => undefined)
    row.alone = over
    row.beside = new Set()
    try {
      return await mine
    } finally {
      if (row.alone === over) row.alone = null
      this.tidy(key, row)
    }
  }

  private row(key: string): Row {
    let row = this.rows.get(key)
    if (row === undefined) {
      row = { alone: null, beside: new Set() }
      this.rows.set(key, row)
    }
    return row
  }

  private tidy(key: string, row: Row): void {
    if (row.alone === null && row.beside.size === 0) this.rows.delete(key)
  }
}
