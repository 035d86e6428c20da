/** The share of wins that pay less than they bid, by supplier and kind of auction: there a lower bid saves nothing. */

import type { Step } from './kalman-step.ts'
import { savingFirst, savingSecond } from './layout.ts'
import type { Sums } from './sums.ts'

/** Variance of whether a win was cheaper than what was sent. */
const noise = 0.1
/** A share below this is none. */
const least = 0.02

const sumOf = (second: boolean) => (second ? savingSecond : savingFirst)

export class Savings {
  private readonly loaded: Sums
  private readonly step: Step

  /** Of the bid that is loaded. */
  constructor(loaded: Sums, step: Step) {
    this.loaded = loaded
    this.step = step
  }

  share(second: boolean): number {
    const share = this.loaded.sums[sumOf(second)]!
    return share < least ? 0 : share > 1 ? 1 : share
  }

  teach(second: boolean, saved: boolean): void {
    const sum = sumOf(second)
    const all = noise + this.loaded.gather(sum, 1, this.step)
    this.step.move(((saved ? 1 : 0) - this.loaded.sums[sum]!) / all, 1 / all)
  }
}
