/** Trains the curve with one exposure, read from its features, and keeps settled rows for the next refit. */
import type { Curve } from '../curve/curve.ts'
import { keyCount } from '../curve/priors.ts'
import { Exposure, readExposure } from '../exposure.ts'
import { hasFloor, keysOf } from '../features.ts'
import { SettledRows } from '../refit/settled-rows.ts'
import type { Row, UpdatePart } from './update-log.ts'

export class CurveTrainer {
  /** The exposure that was read last. */
  readonly seen = new Exposure()
  readonly settled = new SettledRows()
  private readonly curve: Curve
  private readonly keys = new Uint32Array(keyCount)
  private readonly trains: boolean

  constructor(curve: Curve, trains: boolean) {
    this.curve = curve
    this.trains = trains
  }

  /** False: another version wrote the bytes. */
  read(features: Uint8Array): boolean {
    return readExposure(features, this.seen)
  }

  /** Loads the weights of the exposure that was read, for training. */
  loadFeatures(features: Uint8Array): void {
    keysOf(features, this.seen.sentAt, this.keys)
    this.curve.loadBid(this.keys, this.seen.lnIn, hasFloor(features))
  }

  /** An exposure settled, as lost for now. It represents `weight` bids. */
  lost(features: Uint8Array, weight: number): void {
    if (!this.trains) return
    this.trainLost(weight)
    this.settled.addRow(features)
  }

  trainWin(features: Uint8Array, part: UpdatePart, least?: number): void {
    if (!this.trains) return
    this.trainWon(part)
    this.settled.setOutcome('won', features, least)
  }

  undo(features: Uint8Array): void {
    if (!this.trains) return
    this.curve.train(this.seen.sent, 'exposure', -1)
    this.settled.setOutcome('void', features)
  }

  /** Trains again with a row of this node, because the curve of another node lacks it. */
  repeat({ part, weight, features }: Row): void {
    if (!this.trains || !this.read(features)) return
    this.loadFeatures(features)
    if (part === 'undone') this.curve.train(this.seen.sent, 'exposure', -1)
    else if (part === 'lost') this.trainLost(weight)
    else this.trainWon(part)
  }

  private trainLost(weight: number): void {
    for (let n = 0; n < weight; n++) this.curve.train(this.seen.sent, 'exposure')
  }

  private trainWon(part: UpdatePart): void {
    const { curve, seen } = this
    curve.train(seen.sent, 'win')
    if (part !== 'won') curve.trainSaving(seen.second, part === 'saved')
  }
}
