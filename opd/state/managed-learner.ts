/**
 * The learner as the engine sees it: the same object over rollbacks, frozen or not, with suppliers that were forgotten
 * under a new name. What was exposed before a rollback teaches nothing after it.
 */
import type { BidFacts, Decision, Learner, Policy } from '../learner.ts'

/** In front of features of an epoch other than the first: this byte and four of the epoch. No learner's version is as high. */
const marked = 0xee
const markBytes = 5
const none = new Uint8Array(0)
/** Wins that wait for a thaw; beyond, they are lost to the model (counted). */
const mostHeld = 50_000

/** The learner is settled this often, milliseconds, where what waited is told to it. */
const settleEvery = 250

interface Outcome {
  now: number
  tell: (learner: Learner) => void
}

export class ManagedLearner implements Learner {
  inner: Learner
  private mark = 0
  private frozen = false
  private aliases: ReadonlyMap<string, string> = new Map()
  private held: Outcome[] = []
  /** Outcomes of an epoch that is over, and those that found no room while frozen. */
  readonly counts = { stale: 0, unheld: 0 }

  constructor(inner: Learner, epoch: number) {
    this.inner = inner
    this.mark = markOf(epoch)
  }

  /** After a rollback. */
  replace(inner: Learner, epoch: number): void {
    this.inner = inner
    inner.freeze?.(this.frozen)
    this.mark = markOf(epoch)
    this.held = []
  }

  freeze(is: boolean): void {
    this.frozen = is
    this.inner.freeze?.(is)
    if (is) return
    const held = this.held
    this.held = []
    // As it would have gone: what falls due settles between the wins, or guards would see silence.
    let settled = 0
    for (const { now, tell } of held) {
      if (now - settled >= settleEvery) {
        settled = now
        this.inner.advance(now)
      }
      tell(this.inner)
    }
  }

  get isFrozen(): boolean {
    return this.frozen
  }

  /** All that the model holds of a supplier hangs on its name: under another it starts afresh. */
  rename(resets: Readonly<Record<string, number>>): void {
    this.aliases = new Map(
      Object.entries(resets).map(([name, at]) => [name, `${name}\u0000${at.toString(36)}`]),
    )
  }

  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    now: number,
    random: () => number,
  ): Decision {
    const supplier = this.aliases.size === 0 ? undefined : this.aliases.get(facts.supplier)
    const known = supplier === undefined ? facts : { ...facts, supplier }
    return this.inner.decide(known, policy, key, now, random)
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (this.frozen) return none
    const features = this.inner.expose(decision, sentPrice, now)
    if (this.mark === 0 || features.length === 0) return features
    const bytes = new Uint8Array(markBytes + features.length)
    bytes[0] = marked
    new DataView(bytes.buffer).setUint32(1, this.mark)
    bytes.set(features, markBytes)
    return bytes
  }

  win(features: Uint8Array, clearedPrice: number, now: number): void {
    this.teach(features, now, (learner, own) => learner.win(own, clearedPrice, now))
  }

  withdraw(features: Uint8Array, now: number): void {
    this.teach(features, now, (learner, own) => learner.withdraw(own, now))
  }

  private teach(
    features: Uint8Array,
    now: number,
    how: (learner: Learner, own: Uint8Array) => void,
  ): void {
    const isMarked = features[0] === marked && features.length > markBytes
    const mark = isMarked ? new DataView(features.buffer, features.byteOffset).getUint32(1) : 0
    if (mark !== this.mark) {
      this.counts.stale++
      return
    }
    const own = isMarked ? features.subarray(markBytes) : features
    if (!this.frozen) how(this.inner, own)
    else if (this.held.length < mostHeld)
      this.held.push({ now, tell: (learner) => how(learner, own) })
    else this.counts.unheld++
  }

  advance(now: number): void {
    if (!this.frozen) this.inner.advance(now)
  }

  delta(): Uint8Array {
    return this.inner.delta()
  }

  merge(delta: Uint8Array): void {
    this.inner.merge(delta)
  }

  snapshot(): Uint8Array {
    return this.inner.snapshot()
  }

  *snapshotting(taken?: () => void): Generator<undefined, Uint8Array[]> {
    const { inner } = this
    if (inner.snapshotting !== undefined) return yield* inner.snapshotting(taken)
    taken?.()
    return [inner.snapshot()]
  }
}

/** 0 is the first epoch alone. */
const markOf = (epoch: number) => (epoch === 0 ? 0 : epoch % 0xffffffff || 1)
