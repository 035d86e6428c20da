/** What the first process of a node and its workers tell each other. */

import type { DayAmount } from '../../opd/engine/day-reductions.ts'
import type { SharedTokens } from '../../opd/ports.ts'
import type { Mode } from '../../opd/pricing/arms.ts'
import type { ModelControlSource } from '../../opd/state/model-control.ts'
import type { ModelBus } from '../../opd/state/shared-model.ts'
import type { ProcessLoad } from '../../proxy/node-load.ts'
import type { DirectoryState } from '../../proxy/proxy.ts'
import type { Config } from '../config/schema.ts'
import type { Counts } from './counters.ts'
import type { Place } from './limits.ts'

/** The state of suppliers at this location, and holds. */
export interface DirectoryMessage {
  states: Map<string, DirectoryState>
  holds: ReadonlySet<string>
  /** 1 / live nodes. */
  share: number
}

export interface StartMessage {
  place: Place
  port: number
  /** With the context keys. */
  config: Config
  invalidOpd: ReadonlySet<string>
  directory: DirectoryMessage
  versions: Record<Mode, number>
  /** What OPD took off today, of suppliers with a cap of a day. */
  reductions: DayAmount[]
}

/** A new configuration. Suppliers that have changed come before it, in messages of their own. */
export interface ReloadMessage {
  config: Omit<Config, 'suppliers'>
  ids: string[]
}

/** Suppliers of one message: a channel writes and reads a message in one turn of the event loop. */
export const suppliersOfMessage = 20

/** Counters and gauges of a worker. */
export interface Figures {
  counts: Counts & { dropped: number }
  load: ProcessLoad
}

export const tokenMethods = ['ask'] as const satisfies (keyof SharedTokens)[]
export const busMethods = [
  'publish',
  'fetch',
  'look',
  'writeModel',
  'readModel',
] as const satisfies (keyof ModelBus)[]
export const controlMethods = [
  'read',
  'base',
  'raise',
] as const satisfies (keyof ModelControlSource)[]
