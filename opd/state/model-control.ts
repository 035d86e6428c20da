/** The operators' commands for the models: rows of the store that every node executes (CONTRACT 8 and 13). */
import type { Mode } from '../shared/arms.ts'

export interface ModelControl {
  /** Models decide and do not learn. */
  frozen: boolean
  /** By mode: rises with each roll-back. Updates of another epoch are ignored. The store counts epochs. */
  epochs: Readonly<Record<Mode, number>>
  /** By mode: time of the last roll-back, milliseconds since the Unix epoch; null: never. */
  rolledBackAt: Readonly<Record<Mode, number | null>>
  /** By supplier: how often it was reset in the models. */
  resets: Readonly<Record<string, number>>
}

/** Access to the commands in the store. Every method may reject; the caller retries. */
export interface ModelControlSource {
  read(): Promise<ModelControl>
  /** The packed model with which the current epoch of a mode started; null: none is stored. */
  base(mode: Mode): Promise<Uint8Array | null>
  /** Raises the stored epoch to the one of this node, after the database was restored from a backup. */
  raise(mode: Mode, epoch: number, base: Uint8Array): Promise<void>
}

export const initialControl: ModelControl = {
  frozen: false,
  epochs: { revenue: 0, margin: 0 },
  rolledBackAt: { revenue: null, margin: null },
  resets: {},
}
