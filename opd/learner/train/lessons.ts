/** Trains the curve with one exposure, read from its features; keeps what settled for the next refit. */
import type { Curve } from '../curve/curve.ts'
import { keyCount } from '../curve/priors.ts'
import { type Exposure, noExposure, readExposure } from '../exposure.ts'
import { hasFloor, keysOf } from '../features.ts'
import { SettledRows } from '../refit/settled-rows.ts'
import type { Row, TaughtPart } from './update-log.ts'

export class Lessons {
  /** The exposure read last. */
  readonly seen: Exposure = noExposure()
  readonly settled = new SettledRows()
  private readonly curve: Curve
  private readonly keys = new Uint32Array(keyCount)
  private readonly trains: boolean

  constructor(curve: Curve, trains: boolean) {
    this.curve = curve
    this.trains = trains
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
    if (!this.trains) return
    for (let n = 0; n < weight; n++) this.curve.teach(this.seen.sent, 'exposure')
    this.settled.add(features)
  }

  /** A row that was trained before, to a curve that lacks it. */
  again({ part, weight, features }: Row): void {
    if (!this.trains || !this.read(features)) return
    this.load(features)
    const { curve, seen } = this
    if (part === 'undone') curve.teach(seen.sent, 'exposure', -1)
    else if (part === 'lost') for (let n = 0; n < weight; n++) curve.teach(seen.sent, 'exposure')
    else this.teachWin(part)
  }

  private teachWin(part: TaughtPart): void {
    const { curve, seen } = this
    curve.teach(seen.sent, 'win')
    if (part !== 'won') curve.savings.teach(seen.second, part === 'saved')
  }

  won(features: Uint8Array, part: TaughtPart, least?: number): void {
    if (!this.trains) return
    this.teachWin(part)
    this.settled.became('won', features, least)
  }

  undo(features: Uint8Array): void {
    if (!this.trains) return
    this.curve.teach(this.seen.sent, 'exposure', -1)
    this.settled.became('void', features)
  }
}
