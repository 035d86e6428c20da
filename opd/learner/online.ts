/** The learner behind the door: curve, candidates, controller, pending exposures, deltas. */
import type { BidFacts, Decision, Learner, LearnerOptions, Policy } from '../learner.ts'
import {
  DeltaError,
  type Row,
  readDense,
  readRows,
  SnapshotError,
  writeDense,
  writeRows,
} from './bytes.ts'
import { Curve, hashCount } from './curve.ts'
import {
  type Exposure,
  exposureOf,
  hashFacts,
  hashText,
  readExposure,
  writeExposure,
} from './features.ts'
import { Pending } from './pending.ts'
import { SupplierState } from './supplier.ts'

const deltaMagic = 0x62774431
const snapshotMagic = 0x62775331
const none = new Uint8Array(0)
/** Pending exposures kept: about 200 bytes each, so 64 MB at the most. */
const pendingRooms = 250_000
const suppliersKept = 10_000
/** Factors tried: fine near 1, where most of the answer lies. */
const factors = [
  0.5, 0.55, 0.6, 0.65, 0.7, 0.725, 0.75, 0.775, 0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.91, 0.92, 0.93,
  0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995,
]

interface Remembered {
  hashes: Uint32Array
  supplier: number
  inBa: number
}

/** A decision that still knows what it was made from: `expose` follows with the price really sent. */
class OwnDecision implements Decision {
  outBa = 0
  factor = 1
  arm: Decision['arm'] = 'treated'
  propensity = 1
  winIn = 0
  winOut = 0
  theta?: number
  density?: number
  readonly from: Remembered

  constructor(from: Remembered) {
    this.from = from
  }
}

const sound = (value: number | undefined, low: number, high: number, otherwise: number) =>
  value !== undefined && value >= low && value <= high ? value : otherwise

export class OnlineLearner implements Learner {
  private readonly curve = new Curve()
  private readonly pending = new Pending(pendingRooms, (exposure) => this.settle(exposure))
  private readonly suppliers = new Map<number, SupplierState>()
  private readonly window: number
  private readonly node: number
  private sequence = 0
  /** Means and precisions as of the last delta. */
  private readonly sentMean = new Float32Array(Curve.slots)
  private readonly sentVariance = new Float32Array(Curve.slots)
  /** How long wins take: a quantile that moves with them, milliseconds. */
  private patience = 30_000

  constructor(options: LearnerOptions, snapshot?: Uint8Array) {
    this.window = sound(options.attributionWindow, 1, 1e10, 1_800_000)
    this.node = hashText(String(performance.timeOrigin))
    if (snapshot !== undefined) this.restore(snapshot)
  }

  decide(
    facts: BidFacts,
    policy: Policy,
    key: string,
    _now: number,
    random: () => number,
  ): Decision {
    const hashes = new Uint32Array(hashCount)
    hashFacts(facts, hashes)
    const from: Remembered = { hashes, supplier: hashText(facts.supplier), inBa: facts.inBa }
    const decision = new OwnDecision(from)
    decision.outBa = facts.inBa
    if (!(facts.inBa > 0 && Number.isFinite(facts.inBa))) return decision
    const floor = facts.floor > 0 ? facts.floor : 0
    const lnIn = Math.max(-14, Math.min(14, Math.log(facts.inBa)))
    this.curve.load(hashes)
    decision.winIn = this.curve.probability(0, lnIn)
    decision.winOut = decision.winIn
    const holdout = sound(policy.holdout, 0, 1, 0)
    if (holdout > 0 && hashText(key, 0x27d4eb2f) / 2 ** 32 < holdout) {
      decision.arm = 'holdout'
      decision.propensity = holdout
      return decision
    }
    if (floor >= facts.inBa) return decision
    const state = this.stateOf(from.supplier)
    decision.theta = state.theta
    const minFactor = Math.max(sound(policy.minFactor, 0, 1, 0.7), floor / facts.inBa)
    const steady = sound(policy.explore, 0, 1, 0)
    const explore =
      steady === 0 || state.exposures === 0 ? 0 : Math.max(steady, Math.min(0.1, state.curiosity))
    let factor: number
    if (explore > 0 && random() < explore) {
      decision.arm = 'explored'
      decision.propensity = (1 - holdout) * explore
      // What goes beyond the configured share stays where guards allow.
      const guarded = Math.max(minFactor, state.lowest(minFactor))
      const low = random() * explore < steady ? minFactor : guarded
      factor = low + random() * (1 - low)
      // A mixture of two uniform draws.
      const wide = Math.min(1, steady / explore)
      decision.density =
        wide / (1 - minFactor) + (factor >= guarded ? (1 - wide) / (1 - guarded) : 0)
    } else {
      decision.propensity = (1 - holdout) * (1 - explore)
      factor = this.best(state, Math.max(minFactor, state.lowest(minFactor)), facts, lnIn)
    }
    decision.factor = factor
    decision.outBa = Math.min(facts.inBa, Math.max(floor, facts.inBa * factor))
    decision.winOut = Math.min(decision.winIn, this.curve.probability(Math.log(factor), lnIn))
    state.decided(decision.arm, facts.inBa, decision.outBa, decision.winIn, decision.winOut)
    state.steer(policy, facts.mode)
    return decision
  }

  /** argmax (theta - f) W(f) over the candidates; `curve` holds the bid's weights. */
  private best(state: SupplierState, lowest: number, facts: BidFacts, lnIn: number): number {
    if (state.silent) return 1
    // Where the second price is paid a lower bid loses wins and saves little.
    const saved = facts.auction === 2 ? 0.25 : 1
    const { theta } = state
    let best = 1
    let value = (theta - 1) * this.curve.probability(0, lnIn)
    const cold = state.exposures === 0
    if (cold) value = Number.NEGATIVE_INFINITY
    const consider = (f: number) => {
      const worth = (theta - 1 + (1 - f) * saved) * this.curve.probability(Math.log(f), lnIn)
      if (worth > value) {
        value = worth
        best = f
      }
    }
    if (lowest < 1) consider(lowest)
    for (const f of factors) if (f > lowest) consider(f)
    return best
  }

  expose(decision: Decision, sentPrice: number, now: number): Uint8Array {
    if (!(decision instanceof OwnDecision) || !(sentPrice > 0) || !(decision.from.inBa > 0))
      return none
    const exposure: Exposure = {
      ...exposureOf(decision, decision.from, sentPrice, Number.isFinite(now) ? now : 0),
      node: this.node,
      sequence: this.sequence++ >>> 0,
    }
    this.stateOf(exposure.supplier).exposed(exposure.arm, exposure.winOut)
    this.pending.add(exposure)
    return writeExposure(exposure)
  }

  win(features: Uint8Array, clearedPrice: number, now: number): void {
    const exposure = readExposure(features)
    if (exposure === null || !(clearedPrice >= 0)) return
    const age = now - exposure.at
    if (age >= 0) {
      // A running 95 % quantile: up by 19 steps for what is later, down by one for what is not.
      const step = Math.max(100, this.patience * 0.01)
      this.patience += age > this.patience ? step * 19 : -step
      this.patience = Math.max(1000, Math.min(this.window, this.patience))
    }
    if (exposure.node === this.node) {
      const own = this.pending.take(exposure.sequence)
      if (own !== null) this.settle(own)
    }
    this.curve.update(exposure.hashes, exposure.lnF, exposure.lnIn, 'win', 1)
    this.stateOf(exposure.supplier).won(exposure.arm)
  }

  withdraw(features: Uint8Array, _now: number): void {
    const exposure = readExposure(features)
    if (exposure === null) return
    if (exposure.node === this.node && this.pending.take(exposure.sequence) !== null) return
    this.curve.update(exposure.hashes, exposure.lnF, exposure.lnIn, 'exposure', -1)
  }

  advance(now: number): void {
    if (Number.isFinite(now)) this.pending.advance(now - Math.min(this.window, this.patience * 1.5))
  }

  private settle(exposure: Exposure): void {
    this.stateOf(exposure.supplier).settled(exposure.winOut)
    this.curve.update(exposure.hashes, exposure.lnF, exposure.lnIn, 'exposure', 1)
  }

  private stateOf(supplier: number): SupplierState {
    let state = this.suppliers.get(supplier)
    if (state === undefined) {
      state = new SupplierState()
      if (this.suppliers.size < suppliersKept) this.suppliers.set(supplier, state)
    }
    return state
  }

  delta(): Uint8Array {
    const { mean, variance, touched } = this.curve
    const rows: Row[] = []
    for (let slot = 0; slot < Curve.slots; slot++) {
      const parameter = touched[slot]!
      if (parameter === 0) continue
      touched[slot] = 0
      const before = this.sentVariance[slot] || Curve.prior(parameter)
      const a = 1 / variance[slot]! - 1 / before
      const b = mean[slot]! / variance[slot]! - this.sentMean[slot]! / before
      rows.push({ parameter, slot, a, b })
      this.sentMean[slot] = mean[slot]!
      this.sentVariance[slot] = variance[slot]!
    }
    return writeRows(deltaMagic, rows, none)
  }

  merge(delta: Uint8Array): void {
    const read = readRows(deltaMagic, delta)
    if (read === null) throw new DeltaError('a delta that is damaged, or no delta at all')
    const { mean, variance } = this.curve
    for (const { parameter, slot, a, b } of read.rows) {
      const prior = Curve.prior(parameter)
      add(mean, variance, slot, prior, a, b)
      // What came from others is not sent on.
      add(this.sentMean, this.sentVariance, slot, prior, a, b)
    }
  }

  /** Dense, so that it is two copies and a checksum: under 2 ms, whatever was learned. */
  snapshot(): Uint8Array {
    const { mean, variance } = this.curve
    const suppliers = [...this.suppliers].map(([id, { theta, exposures, wins }]) => [
      id,
      theta,
      exposures,
      wins,
    ])
    const tail = Buffer.from(JSON.stringify({ patience: this.patience, suppliers }))
    return writeDense(snapshotMagic, [mean, variance], tail)
  }

  private restore(snapshot: Uint8Array): void {
    const read = readDense(snapshotMagic, snapshot, 2, Curve.slots)
    if (read === null) throw new SnapshotError('a snapshot that is damaged, or of another version')
    const [mean, variance] = read.arrays as [Float32Array, Float32Array]
    this.curve.mean.set(mean)
    this.curve.variance.set(variance)
    this.sentMean.set(mean)
    this.sentVariance.set(variance)
    const { patience, suppliers } = JSON.parse(Buffer.from(read.tail).toString()) as {
      patience: number
      suppliers: [number, number, number, number][]
    }
    this.patience = patience
    for (const [id, theta, exposures, wins] of suppliers)
      Object.assign(this.stateOf(id), { theta, exposures, wins })
  }
}

/** Adds information (1/v and m/v) to one weight; the result stays between a ten-thousandth of the prior and the prior. */
function add(
  mean: Float32Array,
  variance: Float32Array,
  slot: number,
  prior: number,
  a: number,
  b: number,
): void {
  const before = variance[slot] || prior
  const precision = Math.max(1 / prior, Math.min(1e4 / prior, 1 / before + a))
  const information = mean[slot]! / before + b
  variance[slot] = 1 / precision
  mean[slot] = Math.max(-12, Math.min(12, information / precision))
}
