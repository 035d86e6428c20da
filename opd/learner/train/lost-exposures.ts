/**
 * The exposures that a crash lost. The win of such an exposure does not train the model: a win without its exposure would make
 * prices look too good.
 */
export class LostExposures {
  /** The time of the snapshot that was restored after a crash; NaN: nothing was lost. */
  private snapshotAt = Number.NaN
  /** The first time of this process. */
  private startedAt = Number.NaN

  seen(now: number): void {
    if (!(this.startedAt > 0)) this.startedAt = now
  }

  /** Those of a model that is replaced in the same process: it was started then. */
  startedWith({ startedAt }: LostExposures): void {
    this.startedAt = startedAt
  }

  /** The exposures that were pending in a snapshot of this time, and those after it until this start, are lost. */
  lose(snapshotAt: number): void {
    this.snapshotAt = snapshotAt
  }

  /** Other nodes receive most of the wins, so the loss on this node does not matter. */
  forget(): void {
    this.snapshotAt = Number.NaN
  }

  /** Whether the exposure of a bid that was sent at `at`, and due after `wait`, was lost: it was not settled in the snapshot. */
  has(time: number, wait: () => number, now: number): boolean {
    if (!(this.snapshotAt > 0)) return false
    this.seen(now)
    return time < this.startedAt && wait() > this.snapshotAt - time
  }

  /** Whether the snapshot's guards and evidence count a bid that was sent at `at`. */
  isCounted(time: number): boolean {
    return time <= this.snapshotAt
  }
}
