/** A token bucket. `now` is milliseconds of one clock, the same in each call. */
export class TokenBucket {
  private readonly depth: number
  private readonly perMs: number
  private tokens: number
  private last: number

  constructor(depth: number, perSecond: number, now: number) {
    this.depth = depth
    this.perMs = perSecond / 1000
    this.tokens = depth
    this.last = now
  }

  takeToken(now: number): boolean {
    const elapsed = Math.max(0, now - this.last)
    this.tokens = Math.min(this.depth, this.tokens + elapsed * this.perMs)
    this.last = now
    if (this.tokens < 1) return false
    this.tokens--
    return true
  }

  giveBack(): void {
    this.tokens = Math.min(this.depth, this.tokens + 1)
  }
}
