/**
 * What is held per supplier and mode: the multipliers that keep its constraints, and the guards. theta weighs
 * what is kept against what is saved: out = argmax (theta in - p) W(p).
 */
import type { Policy } from '../learner.ts'

/** Sums that forget: after about `horizon` terms the old ones have faded. */
class Fading {
  value = 0
  private readonly keep: number

  constructor(horizon: number) {
    this.keep = 1 - 1 / horizon
  }

  add(term: number): void {
    this.value = this.value * this.keep + term
  }
}

const quick = 400
const slow = 60_000
const slowHoldout = 4000
/** theta - 1 is steered on a logarithmic scale, and never leaves these: pure margin, and the bid's own price. */
const thetaLow = Math.exp(-4)
const thetaHigh = Math.exp(4)
/** Aim this much above the floors: what is measured late is lost already. */
const headroom = 0.008
/** How deep the first prices may go, by settled exposures. */
const depths: readonly [number, number][] = [
  [0, 0.95],
  [400, 0.9],
  [1500, 0.85],
  [4000, 0.8],
  [8000, 0],
]
/** Wins that were due since the last one came, before notices count as stopped; and wins that must have come ever. */
const dueBeforeSilence = 40
const winsBeforeGuards = 50

export class SupplierState {
  theta = 1
  exposures = 0
  wins = 0
  /** Expected wins since the last win. */
  due = 0
  /** `performance` of the constraint as the model sees it, wins and spend, treated only. */
  private readonly winsOut = new Fading(quick)
  private readonly winsIn = new Fading(quick)
  private readonly spendOut = new Fading(quick)
  private readonly spendIn = new Fading(quick)
  private readonly marginOut = new Fading(quick)
  /** Observed and modelled wins of the treated and of the holdout: their ratio corrects the model. */
  private readonly treatedWins = new Fading(slow)
  private readonly treatedModel = new Fading(slow)
  private readonly holdoutWins = new Fading(slowHoldout)
  private readonly holdoutModel = new Fading(slowHoldout)

  get silent(): boolean {
    return this.wins >= winsBeforeGuards && this.due > dueBeforeSilence
  }

  /** The lowest factor that may be asked for now: shallow first, deeper while the guards are quiet. */
  lowest(minFactor: number): number {
    let depth = 1
    for (const [settled, factor] of depths) if (this.exposures >= settled) depth = factor
    return Math.max(minFactor, depth)
  }

  decided(arm: string, inBa: number, out: number, winIn: number, winOut: number): void {
    if (arm !== 'treated') return
    this.winsOut.add(winOut)
    this.winsIn.add(winIn)
    this.spendOut.add(winOut * inBa)
    this.spendIn.add(winIn * inBa)
    this.marginOut.add(winOut * (inBa - out))
  }

  exposed(arm: string, winOut: number): void {
    this.exposures++
    // Wins and what the model expected of them fade together, or their ratio would drift.
    const [model, wins] =
      arm === 'holdout'
        ? [this.holdoutModel, this.holdoutWins]
        : [this.treatedModel, this.treatedWins]
    model.add(winOut)
    wins.add(0)
  }

  /** An exposure's time has passed: its win was due. */
  settled(winOut: number): void {
    this.due += winOut
  }

  /** What is explored beyond the configured share while little is known; it decays with what is learned. */
  get curiosity(): number {
    return 0.15 / Math.sqrt(1 + this.exposures / 100)
  }

  won(arm: string): void {
    this.wins++
    this.due = 0
    if (arm === 'holdout') this.holdoutWins.value += 1
    else this.treatedWins.value += 1
  }

  /** How much the model overstates what is kept, by the holdout; 1 while there is little to say. */
  get correction(): number {
    const doubt = 60
    const treated = (this.treatedWins.value + doubt) / (this.treatedModel.value + doubt)
    // A holdout that says little is taken to be as the treated are: late and lost notices cancel.
    const holdout = (this.holdoutWins.value + doubt * treated) / (this.holdoutModel.value + doubt)
    return Math.max(0.5, Math.min(1.1, treated / holdout))
  }

  get kept(): { wins: number; spend: number; margin: number } {
    const ratio = (out: Fading, in_: Fading) => (in_.value > 0 ? out.value / in_.value : 1)
    return {
      wins: ratio(this.winsOut, this.winsIn) * this.correction,
      spend: ratio(this.spendOut, this.spendIn) * this.correction,
      margin: this.spendOut.value > 0 ? this.marginOut.value / this.spendOut.value : 0,
    }
  }

  /** One small step of theta towards the constraint; clamped at both ends, so that nothing winds up. */
  steer(policy: Policy, mode: 'revenue' | 'margin'): void {
    const { wins, spend, margin } = this.kept
    const step = 0.02
    if (mode === 'margin') {
      const target = policy.targetMargin ?? 0.15
      this.theta = moved(this.theta, step * (margin - target) * 4)
      return
    }
    const minWins = policy.minWinRate ?? 0.97
    const minSpend = policy.minSpend ?? minWins
    if (minWins <= 0 && minSpend <= 0) {
      this.theta = 1
      return
    }
    const room = Math.min(
      wins - Math.min(1, minWins + headroom),
      spend - Math.min(1, minSpend + headroom),
    )
    // Faster back than forth: a lost win is dearer than a late saving.
    this.theta = moved(this.theta, -step * room * (room < 0 ? 6 : 3))
  }
}

/** theta after a step of its logarithm; a number that is none is the safe end. */
function moved(theta: number, step: number): number {
  const next = Math.max(thetaLow, theta - 1) * Math.exp(step)
  return 1 + (Number.isFinite(next) ? Math.max(thetaLow, Math.min(thetaHigh, next)) : thetaHigh)
}
