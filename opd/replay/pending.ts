/**
 * A bounded map by id. When it is full, the oldest row is dropped. A ring of ids finds the oldest row: the first key of a
 * Map is slow to find after many deletions.
 */
export class BoundedRows<T> {
  private readonly rows = new Map<string, T>()
  private readonly ring: string[] = []
  private next = 0
  private readonly most: number
  dropped = 0

  constructor(most: number) {
    this.most = most
  }

  has(id: string): boolean {
    return this.rows.has(id)
  }

  put(id: string, row: T): void {
    const oldest = this.ring[this.next]
    if (oldest !== undefined && this.rows.delete(oldest)) this.dropped++
    this.ring[this.next] = id
    this.next = (this.next + 1) % this.most
    this.rows.set(id, row)
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
