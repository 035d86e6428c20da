/** What nodes exchange of their models, and through what. */
import type { Mode } from '../shared/arms.ts'
import type { VersionVectorRows } from './envelope.ts'

export type SharedPart = 'whole' | 'curve'

export interface SharedModelHead {
  epoch: number
  seen: VersionVectorRows
  /** Of a curve: the version of the model on all nodes. */
  version?: number
}

/** A part of the shared model. `number` 0: there is none. `head` null: there is none, or its number is the known one. */
export interface SeenPart {
  number: number
  head: SharedModelHead | null
}

/** `alone`: the store of the other nodes is away, so that this node leads its own processes. */
export type Look = Record<SharedPart, SeenPart> & { leads: boolean; alone?: boolean }

/**
 * What nodes exchange for each mode: a stream of deltas, which the node that leads reads, and the two parts of a model.
 * Implemented by Redis, and by the memory of a node with workers, who call it in another process: each member is a method that
 * returns a promise, and none is optional. A failure is retried in the next round.
 */
export interface ModelBus {
  /** Appends one delta of this node's model. */
  publish(mode: Mode, delta: Uint8Array): Promise<void>
  /** Deltas after the position `from` (`0`: from the beginning), each with its position. `last`: next `from`. */
  fetch(
    mode: Mode,
    from: string,
  ): Promise<{ deltas: { place: string; bytes: Uint8Array }[]; last: string }>
  /**
   * Takes or renews the lease if `candidate`, otherwise gives it up, and reads the heads of the parts whose numbers are not `known`.
   */
  look(
    mode: Mode,
    node: string,
    candidate: boolean,
    known: Readonly<Record<SharedPart, number>>,
  ): Promise<Look>
  /** Replaces a part of the shared model; its number, or 0 if the lease was lost. */
  writeModel(
    mode: Mode,
    part: SharedPart,
    node: string,
    head: SharedModelHead,
    bytes: Uint8Array,
  ): Promise<number>
  readModel(mode: Mode, part: SharedPart): Promise<Uint8Array | null>
}

/**
 * Milliseconds. A lease that is not renewed for so long is free. The node that leads renews it, and another one takes it,
 * every `keepEvery`: after a crash the others have the next curve within 5 s. A node sends its updates so often, and the one
 * that leads reads those of all: it has trained with a win of another node after two of these, less than a second.
 */
export const leaseLife = 3000
export const keepEvery = 400
