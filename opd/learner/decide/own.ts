import type { BidFacts, Decision } from '../types.ts'

/** A decision, at first the bid's own price, that keeps what `expose` needs: it follows with the price that was sent. */
export class OwnDecision implements Decision {
  outBa: number
  factor = 1
  arm: Decision['arm'] = 'treated'
  propensity = 1
  winIn = 0
  winOut = 0
  theta?: number
  lambda?: number
  guard?: string
  density?: number
  /** Theta was raised. */
  raised = false
  /** How much it says of what lower prices lose. */
  weight = 0
  readonly inBa: number
  readonly second: boolean
  readonly mode: BidFacts['mode']
  /** Its own: `expose` writes them. */
  bytes: Uint8Array
  exposed = false

  constructor({ inBa, auction, mode }: BidFacts, bytes: Uint8Array) {
    this.inBa = inBa
    this.outBa = inBa
    this.second = auction === 2
    this.mode = mode
    this.bytes = bytes
  }
}
