/**
 * The learner that the engine uses. It stays the same object when operators roll the model back or freeze it. A supplier
 * that was reset gets a new name in the model. Exposures from before a roll-back are not used for training after it.
 */
import type { BidFacts, Decision, Learner, Policy } from '../learner.ts'

/** Prefix of features of every epoch but the first: this byte, and four bytes of the epoch. No version of a learner uses the byte. */
const epochMarker = 0xee
const markBytes = 5
const none = new Uint8Array(0)
/** Wins that are queued while the model is frozen. Further wins are not used for training, and are counted. */
const maxQueued = 50_000

/** Milliseconds between two calls of `advance` while queued wins are applied. */
const advanceEvery = 250

interface QueuedWin {
  now: number
  apply: (learner: Learner) => void
}

export class ManagedLearner implements Learner {
  inner: Learner
  private mark = 0
  private frozen = false
  private aliases: ReadonlyMap<string, string> = new Map()
  private queued: QueuedWin[] = []
  /** Wins of an earlier epoch, and wins that did not fit in the queue. */
  readonly counts = { stale: 0, overflowed: 0 }

  constructor(inner: Learner, epoch: number) {
    this.inner = inner
    this.mark = markOf(epoch)
  }

  /** After a rollback. */
  replace(inner: Learner, epoch: number): void {
    this.inner = inner
    inner.freeze?.(this.frozen)
    this.mark = markOf(epoch)
    this.queued = []
  }

  /** What other nodes know, in the same epoch. Exposures that wait, and multipliers, stay. */
  resume(learned: Uint8Array): void {
    this.inner.resume?.(learned)
  }

  /** The model of other nodes, in the same epoch, for a node that has none. */
  adopt(inner: Learner): void {
    this.inner = inner
    inner.freeze?.(this.frozen)
  }

  freeze(is: boolean): void {
    this.frozen = is
    this.inner.freeze?.(is)
    if (is) return
    const { queued } = this
    this.queued = []
    // The clock advances between the wins, or the guards would see a time without win notices.
    let advancedAt = 0
    for (const { now, apply } of queued) {
      if (now - advancedAt >= advanceEvery) {
        advancedAt = now
        this.inner.advance(now)
      }
      apply(this.inner)
    }
  }

  get isFrozen(): boolean {
    return this.frozen
  }

  /** Everything the model knows of a supplier is stored by its name, so a new name resets it. */
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
    return this.inner.decide(this.named(facts), policy, key, now, random)
  }

  /** The facts with the name that the model knows the supplier by. */
  private named(facts: BidFacts): BidFacts {
    const supplier = this.aliases.size === 0 ? undefined : this.aliases.get(facts.supplier)
    return supplier === undefined ? facts : { ...facts, supplier }
  }

  /** null: the learner has no curve. */
  winChance(facts: BidFacts, price: number): number | null {
    return this.inner.chance?.(this.named(facts), price) ?? null
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (this.frozen) return none
    const features = this.inner.expose(decision, sentPrice, now)
    if (this.mark === 0 || features.length === 0) return features
    const bytes = new Uint8Array(markBytes + features.length)
    bytes[0] = epochMarker
    new DataView(bytes.buffer).setUint32(1, this.mark)
    bytes.set(features, markBytes)
    return bytes
  }

  win(features: Uint8Array, clearedPrice: number, now: number, minToWin?: number): void {
    this.train(features, now, (learner, unmarked) =>
      learner.win(unmarked, clearedPrice, now, minToWin),
    )
  }

  lose(features: Uint8Array, minToWin: number | null, now: number): void {
    this.train(features, now, (learner, unmarked) => learner.lose(unmarked, minToWin, now))
  }

  refitJob(now: number): Uint8Array | null {
    return this.frozen ? null : this.inner.refitJob(now)
  }

  applyRefit(result: Uint8Array): void {
    this.inner.applyRefit(result)
  }

  withdraw(features: Uint8Array, now: number): void {
    this.train(features, now, (learner, unmarked) => learner.withdraw(unmarked, now))
  }

  private train(
    features: Uint8Array,
    now: number,
    update: (learner: Learner, unmarked: Uint8Array) => void,
  ): void {
    const isMarked = features[0] === epochMarker && features.length > markBytes
    const mark = isMarked ? new DataView(features.buffer, features.byteOffset).getUint32(1) : 0
    if (mark !== this.mark) {
      this.counts.stale++
      return
    }
    const unmarked = isMarked ? features.subarray(markBytes) : features
    if (!this.frozen) update(this.inner, unmarked)
    else if (this.queued.length < maxQueued)
      this.queued.push({ now, apply: (learner) => update(learner, unmarked) })
    else this.counts.overflowed++
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

  *sharing(taken: () => void): Generator<undefined, Uint8Array[]> {
    return (yield* this.inner.sharing?.(taken) ?? []) ?? []
  }

  *adopting(
    curve: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean> {
    const { inner } = this
    // A roll-back may come between two slices.
    const valid = () => (this.inner === inner && !this.frozen ? missing() : null)
    return (yield* inner.adopting?.(curve, valid) ?? []) ?? false
  }

  *snapshotting(taken?: () => void): Generator<undefined, Uint8Array[]> {
    const { inner } = this
    if (inner.snapshotting !== undefined) return yield* inner.snapshotting(taken)
    taken?.()
    return [inner.snapshot()]
  }
}

/** Only the first epoch has the mark 0. */
const markOf = (epoch: number) => (epoch === 0 ? 0 : epoch % 0xffffffff || 1)
