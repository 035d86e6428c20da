/** A bucket of tokens: what strangers may cost us, such as rows of refused notices. */
export class TokenBucket {
  private readonly burst: number
  private readonly perSecond: number
  private readonly now: () => number
  private left: number
  private at: number

  constructor(burst: number, perSecond: number, now: () => number) {
    this.burst = burst
    this.perSecond = perSecond
    this.now = now
    this.left = burst
    this.at = now()
  }

  take(): boolean {
    const at = this.now()
    const passed = Math.max(0, at - this.at)
    this.left = Math.min(this.burst, this.left + (passed / 1000) * this.perSecond)
    this.at = at
    if (this.left < 1) return false
    this.left--
    return true
  }
}
