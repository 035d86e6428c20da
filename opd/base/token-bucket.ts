/** A token bucket, full at first. */
export class TokenBucket {
  private readonly depth: number
  private readonly perMs: number
  private tokens: number
  private last: number

  /**
   * @param depth tokens that are kept at most
   * @param perSecond tokens that are added, 0 or more
   * @param now milliseconds
   */
  constructor(depth: number, perSecond: number, now: number) {
    this.depth = depth
    this.perMs = perSecond / 1000
    this.tokens = depth
    this.last = now
  }

  /**
   * False: there is no whole token, and none is taken.
   *
   * @param now milliseconds of the clock that the constructor was given
   */
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
