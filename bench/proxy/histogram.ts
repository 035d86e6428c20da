/** Latencies in steps of 20 us up to 2 s: constant memory and no work at the time of measuring. */
export class Histogram {
  readonly #counts = new Uint32Array(100_000)
  #total = 0

  /** Milliseconds. */
  add(ms: number): void {
    const at = Math.min(this.#counts.length - 1, Math.max(0, Math.floor(ms * 50)))
    this.#counts[at]!++
    this.#total++
  }

  /** Milliseconds, the upper end of the step; 0 when nothing was added. */
  quantile(share: number): number {
    let left = Math.ceil(this.#total * share)
    if (left === 0) return 0
    for (let at = 0; at < this.#counts.length; at++) {
      left -= this.#counts[at]!
      if (left <= 0) return (at + 1) / 50
    }
    return this.#counts.length / 50
  }
}
