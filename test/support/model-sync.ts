/** Nodes whose model is a sum, and a bus in memory: what each has learned can be read, and how often. */
import type { NodeLearner } from '../../opd/learner-types.ts'
import {
  leaseLife,
  type ModelBus,
  type SharedModelHead,
  type SharedPart,
} from '../../opd/state/model-bus.ts'
import { ModelManager } from '../../opd/state/model-manager.ts'
import type { TrainingJournal } from '../../opd/state/model-store.ts'

export const log = { info() {}, warn() {}, error() {} }

const amountIn = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0)

/** A model that is a sum: what is in it, and how often, can be read. Its delta says what was added since the last. */
class Sum implements NodeLearner {
  value = 0
  private sent = 0

  constructor(snapshot?: Uint8Array) {
    if (snapshot === undefined) return
    this.value = amountIn(snapshot)
    this.sent = this.value
  }

  decide() {
    return {
      outBa: 1,
      factor: 1,
      arm: 'treated' as const,
      propensity: 1,
      winIn: 1,
      winOut: this.value,
    }
  }
  expose = () => new Uint8Array(1)
  win(_features: Uint8Array, amount: number) {
    this.value += amount
  }
  winUnapplied() {}
  settlePast() {}
  lose() {}
  withdraw() {}
  refitJob = () => null
  applyRefit() {}
  advance() {}
  delta() {
    const bytes = new Uint8Array(this.value === this.sent ? 16 : 24)
    new DataView(bytes.buffer).setFloat64(0, this.value - this.sent)
    this.sent = this.value
    return bytes
  }
  merge(delta: Uint8Array) {
    const added = amountIn(delta)
    this.value += added
    this.sent += added
  }
  snapshot() {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setFloat64(0, this.value)
    return bytes
  }
  freeze() {}
  chance() {
    return 0
  }
  recentBids() {
    return []
  }
  *snapshotting(taken = () => {}): Generator<undefined, Uint8Array[]> {
    taken()
    return [this.snapshot()]
  }
  resume(snapshot: Uint8Array) {
    this.value = amountIn(snapshot)
    this.sent = this.value
  }
  takePending() {}
  *sharing(taken: () => void): Generator<undefined, Uint8Array[]> {
    yield
    taken()
    return [this.snapshot()]
  }
  *adopting(
    curve: Uint8Array,
    missing: () => readonly Uint8Array[] | null,
  ): Generator<undefined, boolean> {
    yield
    const deltas = missing()
    if (deltas === null) return false
    this.value = deltas.reduce((sum, delta) => sum + amountIn(delta), amountIn(curve))
    this.sent = this.value
    return true
  }
}

export const modelManagerOf = (
  dir: string | null,
  now: () => number = () => 1e12,
  journal: TrainingJournal = { settleApplied: async () => true },
) =>
  new ModelManager({
    journal,
    dir,
    attributionWindow: 1000,
    now,
    log,
    create: (_options, snapshot) => new Sum(snapshot),
    advanceEvery: 1e8,
    snapshotEvery: 1e8,
  })
/** The clock of one node: each look is a round later, so that each round shares a curve. */
export const roundClock = () => {
  let now = 0
  return () => (now += 2000)
}
/** Whether bytes are a model of this kind. */
export const isSum = (learned: Uint8Array) => new Sum(learned)
export const sumOf = (modelManager: ModelManager) =>
  (modelManager.learnerOf('revenue').inner as Sum).value
/** Powers of two: a sum tells what is in it. */
export const learn = (modelManager: ModelManager, amount: number) =>
  modelManager
    .learnerOf('revenue')
    .win(modelManager.learnerOf('revenue').expose(null as never, 1, 1), amount, 1)

/**
 * What Redis keeps, in memory. `fault` may repeat, reorder or lose what is fetched. Leases move after each model that is
 * written, unless the bus keeps them, as Redis does while their holders live. Of a holder that is gone they move after
 * some looks of others, or, with a clock, when they expire.
 */
export function memoryBus(
  options: ((rows: string[]) => string[]) | { keepsLeases: true; now?: () => number } = (rows) =>
    rows,
): ModelBus {
  const fault = typeof options === 'function' ? options : (rows: string[]) => rows
  const keepsLeases = typeof options !== 'function'
  const now = typeof options === 'function' ? undefined : options.now
  const heldUntil = new Map<string, number>()
  const streams = new Map<string, Buffer[]>()
  const stream = (mode: string) => {
    const rows = streams.get(mode) ?? []
    streams.set(mode, rows)
    return rows
  }
  const leases = new Map<string, string>()
  const looks = new Map<string, number>()
  const looksWithout = 12
  /** Models of which a part was written: the next one to look leads, as after the holder has ended. */
  const free = new Set<string>()
  const parts = new Map<string, { number: number; head: SharedModelHead; bytes: Uint8Array }>()
  const seenPart = (mode: string, part: SharedPart, known: number) => {
    const { number, head } = parts.get(`${mode} ${part}`) ?? { number: 0, head: null }
    return { number, head: number === known ? null : head }
  }
  return {
    async look(mode, node, candidate, known) {
      const others = leases.get(mode) === node ? 0 : (looks.get(mode) ?? 0) + 1
      looks.set(mode, others)
      const isExpired = now !== undefined && (heldUntil.get(mode) ?? 0) <= now()
      if (now === undefined ? others > looksWithout : isExpired) leases.delete(mode)
      if (free.delete(mode)) leases.delete(mode)
      if (candidate && !leases.has(mode)) leases.set(mode, node)
      if (!candidate && leases.get(mode) === node) leases.delete(mode)
      if (now !== undefined && leases.get(mode) === node) heldUntil.set(mode, now() + leaseLife)
      return {
        leads: leases.get(mode) === node,
        whole: seenPart(mode, 'whole', known.whole),
        curve: seenPart(mode, 'curve', known.curve),
      }
    },
    async writeModel(mode, part, node, head, bytes) {
      if (leases.get(mode) !== node) return 0
      const number = seenPart(mode, part, 0).number + 1
      parts.set(`${mode} ${part}`, { number, head, bytes })
      if (!keepsLeases) free.add(mode)
      return number
    },
    async readModel(mode, part) {
      return parts.get(`${mode} ${part}`)?.bytes ?? null
    },
    async publish(mode, delta) {
      stream(mode).push(Buffer.from(delta))
    },
    async fetch(mode, from) {
      const rows = stream(mode)
      const places = rows.map((_row, index) => String(index + 1)).slice(Number(from))
      const deltas = fault(places).map((place) => ({ place, bytes: rows[Number(place) - 1]! }))
      return { deltas, last: String(rows.length) }
    },
  }
}
