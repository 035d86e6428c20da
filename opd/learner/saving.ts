/** The share of wins that paid less than they bid, by supplier and kind of auction: there a lower bid saves nothing. */
import type { Group, Groups } from './groups.ts'
import { saving } from './shape.ts'

/** Before anything cleared, of first-price and of second-price auctions. */
const [first, second] = [0, 0.75]
const noise = 0.1
/** A share below this is none. */
const least = 0.02

export class Saving {
  private readonly groups: Groups
  private readonly byKind: readonly [Group, Group]

  constructor(groups: Groups) {
    this.groups = groups
    this.byKind = [groups.make(saving), groups.make(saving)]
  }

  private load(keys: Uint32Array, isSecond: boolean): number {
    return this.groups.load(this.byKind[isSecond ? 1 : 0], keys, isSecond ? second : first)
  }

  share(keys: Uint32Array, isSecond: boolean): number {
    const share = this.load(keys, isSecond)
    return share < least ? 0 : share > 1 ? 1 : share
  }

  teach(keys: Uint32Array, isSecond: boolean, saved: boolean): void {
    const expected = this.load(keys, isSecond)
    const group = this.byKind[isSecond ? 1 : 0]
    const all = noise + this.groups.spread(group)
    this.groups.step(group, 1, ((saved ? 1 : 0) - expected) / all, 1 / all)
  }
}
