/** What the calls of `/api/svc/debug/` need of the node. */
import type { Readable } from 'node:stream'

type Level = 'debug' | 'info' | 'warn' | 'error'

/** A turn of the event loop of a process that was late. */
export interface Turn {
  process: number
  /** Milliseconds since the epoch, at its end. */
  endedAt: number
  lateMs: number
  cpuMs: number
  gcMs: number
  /** null: it was not asked, or native code ran. */
  stack: string[] | null
}

export interface RefusedBid {
  process: number
  /** Milliseconds since the epoch. */
  time: number
  ssp: string
  outcome: string
  reason: string | null
  status: number
  protocol: string
  durationMs: number
  endpoint: string | null
}

export interface DebugAccess {
  /** `until`: milliseconds since the epoch at which the configured level is back. */
  readonly level: { level: Level; configured: Level; until: number | null }
  setLevel(level: Level, ms: number): void
  /** Processes of this node that serve bids, by number: 0 is the first, which has the admin listener. */
  processes(): number[]
  /** The newest first. */
  lateTurns(): Promise<Turn[]>
  /** The newest first. */
  refused(): Promise<RefusedBid[]>
  /** The bytes of a `.cpuprofile` of so many milliseconds. */
  profile(process: number, ms: number): Promise<Readable>
  /** The bytes of a `.heapsnapshot`. The process serves nothing while V8 makes it. */
  heapSnapshot(process: number): Promise<Readable>
}
