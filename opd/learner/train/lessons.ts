/** What the curve is taught of one exposure, read from its features; and what settled, gone over again. */
import type { Curve } from '../curve/curve.ts'
import { keyCount } from '../curve/priors.ts'
import { type Exposure, hasFloor, keysOf, noExposure, readExposure } from '../features.ts'
import { Rehearsal } from './experience-replay.ts'
import type { TaughtPart } from './update-log.ts'

export class Lessons {
  /** The exposure read last. */
  readonly seen: Exposure = noExposure()
  readonly rehearsal = new Rehearsal()
  private readonly curve: Curve
  private readonly keys = new Uint32Array(keyCount)
  private now = 0
  private patience = 0
  private readonly again = (features: Uint8Array, won: boolean, rate: number) => {
    const { seen, curve } = this
    // One that is younger than notices take may still be won.
    if (!this.read(features) || this.now - seen.at < this.patience) return
    this.load(features)
    curve.rehearse(seen.sent, won, rate)
  }

  constructor(curve: Curve) {
    this.curve = curve
  }

  /** False: not bytes of ours. */
  read(features: Uint8Array): boolean {
    return readExposure(features, this.seen)
  }

  /** Turns the curve to the exposure that was read; then it can be taught. */
  load(features: Uint8Array): void {
    keysOf(features, this.seen.at, this.keys)
    this.curve.load(this.keys, this.seen.lnIn, hasFloor(features))
  }

  /** Settled, as lost for now, as often as it counts. */
  lost(features: Uint8Array, weight: number): void {
    for (let n = 0; n < weight; n++) this.curve.teach(this.seen.sent, 'exposure')
    this.rehearsal.add(features)
  }

  won(features: Uint8Array, part: TaughtPart): void {
    const { curve, seen } = this
    curve.teach(seen.sent, 'win')
    if (part !== 'won') curve.savings.teach(seen.second, part === 'saved')
    this.rehearsal.became('won', features)
  }

  undo(features: Uint8Array): void {
    this.curve.teach(this.seen.sent, 'exposure', -1)
    this.rehearsal.became('void', features)
  }

  /** What is taught from now on was learned elsewhere, and is not sent on. */
  foreign(is: boolean): void {
    this.curve.weights.foreign = is
  }

  /** `patience`: milliseconds that most notices take. Every node goes over what it knows by itself: nothing of it is told. */
  rehearse(now: number, patience: number): void {
    this.now = now
    this.patience = patience
    this.foreign(true)
    this.rehearsal.rehearse(now, this.again)
    this.foreign(false)
  }
}
