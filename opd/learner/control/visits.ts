/**
 * The suppliers that `advance` has work for. It is called twenty times a second: if it read the state of each of thousands of
 * suppliers, it would hold the event loop for milliseconds each time.
 */

/** Suppliers and modes that have a state of their own: some 6 KB in memory and 2 KB in a snapshot each. */
export const suppliersKept = 10_000

/** Marks one supplier for the next run. */
export interface Visit {
  mark(): void
}

export class Visits {
  private readonly marked = new Uint8Array(suppliersKept)
  /** When the oldest bids began that wait for a win. Of a marked supplier it is not known. */
  private readonly oldest = new Float64Array(suppliersKept)
  private count = 0

  /** The supplier at this position, which is the next one. It is marked. */
  addSupplier(nth: number): Visit {
    const { marked } = this
    this.count = nth + 1
    marked[nth] = 1
    return {
      mark() {
        marked[nth] = 1
      },
    }
  }

  /**
   * @param before calls `visit` for suppliers that are marked, and for those whose oldest bids began before this time
   * @param visit returns when the oldest bids of the supplier began that still wait for a win
   */
  run(before: number, visit: (nth: number) => number): void {
    const { marked, oldest, count } = this
    for (let nth = 0; nth < count; nth++) {
      if (marked[nth] === 0 && !(oldest[nth]! < before)) continue
      marked[nth] = 0
      oldest[nth] = visit(nth)
    }
  }
}
