/** Token bucket that limits the rows which unauthenticated notices may write. */
export class TokenBucket {
  private readonly burst: number
  private readonly perSecond: number
  private readonly now: () => number
  private tokens: number
  private at: number

  constructor(burst: number, perSecond: number, now: () => number) {
    this.burst = burst
    this.perSecond = perSecond
    this.now = now
    this.tokens = burst
    this.at = now()
  }

  take(): boolean {
    const at = this.now()
    const elapsed = Math.max(0, at - this.at)
    this.tokens = Math.min(this.burst, this.tokens + (elapsed / 1000) * this.perSecond)
    this.at = at
    if (this.tokens < 1) return false
    this.tokens--
    return true
  }
}
