/** Messages between the first process of a node and its workers. */
import type { DayAmount } from '../../opd/pricing/day-reductions.ts'
import type { Mode } from '../../opd/shared/arms.ts'
import type { TicketSecret } from '../../proxy/listen/ticket-keys.ts'
import type { ProcessLoad } from '../../proxy/node-load.ts'
import type { LocationState } from '../bid-path.ts'
import type { Config } from '../config/schema.ts'
import type { Place } from '../limits.ts'
import type { SpanCounts } from '../tracing/exporter.ts'
import type { Counts } from './counters.ts'

/** What only the first process knows, because wins come to it, and it has the store. */
export interface Progress {
  /** Of the models. */
  versions: Record<Mode, number>
  /** What OPD took off today, of suppliers with a cap of a day. */
  reductions: DayAmount[]
  /** Milliseconds that the clock of the database is ahead of this node's. */
  clockAhead: number
}

export interface StartMessage {
  place: Place
  port: number
  /** With the context keys. */
  config: Config
  invalidOpd: ReadonlySet<string>
  location: LocationState
  /** Of TLS session tickets. */
  ticketSecret: TicketSecret
  progress: Progress
}

/** A new configuration. Suppliers that have changed come before it, in messages of their own. */
export interface ReloadMessage {
  config: Omit<Config, 'suppliers'>
  ids: string[]
  invalidOpd: ReadonlySet<string>
}

/** Suppliers of one message: a channel writes and reads a message in one turn of the event loop. */
export const suppliersOfMessage = 20

/** Milliseconds between two reports of a worker: that it runs, from its first code on, and its counters. */
export const reportEvery = 250

/** Counters and gauges of a worker. */
export interface Figures {
  counts: Counts & { dropped: number; spans: SpanCounts }
  load: ProcessLoad
}
