/** Messages between the watched thread and the thread that watches it. */

/** What the thread is started with. */
export interface WatchStart {
  /** Ticks of the watched event loop. */
  ticks: SharedArrayBuffer
  /** The lines of the log (service/log/line-ring.ts), and the fields of each line. */
  lines: SharedArrayBuffer
  fields: object | null
}

/** A file to be written. */
export type WatchRequest =
  | { kind: 'profile'; path: string; ms: number }
  | { kind: 'heap'; path: string }

export type WatchResponse =
  /** What ran at the tick: functions, the innermost first; null: nothing of JavaScript could be seen. */
  | { kind: 'seen'; tick: number; stack: string[] | null }
  /** The file is written; `error` null: it is whole. */
  | { kind: 'written'; error: string | null }
