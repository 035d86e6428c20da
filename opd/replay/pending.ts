/** Bids whose win may still come: found by id, bounded; beyond, the oldest is given up (its win is then unmatched). */
export class PendingRows<T> {
  private readonly rows = new Map<string, T>()
  private readonly most: number
  givenUp = 0

  constructor(most: number) {
    this.most = most
  }

  has(id: string): boolean {
    return this.rows.has(id)
  }

  put(id: string, row: T): void {
    this.rows.set(id, row)
    if (this.rows.size <= this.most) return
    const [oldest] = this.rows.keys()
    this.rows.delete(oldest!)
    this.givenUp++
  }

  get size(): number {
    return this.rows.size
  }

  values(): Iterable<T> {
    return this.rows.values()
  }

  get(id: string): T | undefined {
    return this.rows.get(id)
  }

  take(id: string): T | undefined {
    const row = this.rows.get(id)
    if (row !== undefined) this.rows.delete(id)
    return row
  }
}
