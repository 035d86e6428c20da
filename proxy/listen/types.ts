/**
 * What a lane carries: a request is a head and a body, and so is an answer. The exchange works on these alone;
 * which sockets and parsers stand behind them is the lane's business.
 */

/** A bid request whose head has arrived. */
export interface Inbound {
  /** Flat, as on the wire. */
  headers: readonly string[]
  /** `?…` with the question mark, or empty. */
  query: string
  remote: string
  secure: boolean
  /** `performance.now()` at the arrival of the head. */
  arrived: number
  reply: Reply
}

/** The way back to the caller. After `whole`, `end` or `destroy` nothing more is called. */
export interface Reply {
  /** The caller is still there. */
  readonly open: boolean
  /** A whole answer at once; `body` null for one without. */
  whole(status: number, message: string, headers: string[], body: Buffer | null): void
  start(status: number, message: string, headers: string[]): void
  /** False: wait for `drained`. */
  write(chunk: Buffer): boolean
  drained(resume: () => void): void
  end(): void
  /** A started answer that cannot be finished: the caller sees a closed connection, never a wrong end. */
  destroy(): void
}

/** One request on its way to an endpoint; `abort` cancels it, once, and silences its sink. */
export interface Sent {
  abort(): void
}

/** What comes back from an endpoint, in this order; nothing after `end` or `fail`. */
export interface AnswerSink {
  head(status: number, message: string, headers: string[]): void
  /** False: the sender pauses until `Sent.resume`. */
  data(chunk: Buffer, resume: () => void): boolean
  end(): void
  fail(failure: SendFailure): void
}

export interface SendFailure {
  /**
   * `unsent`: not a byte reached the wire. `reused`: a reused connection closed before a byte of answer.
   * Both may be sent once more. `broken`: anything else, never repeated.
   */
  kind: 'unsent' | 'reused' | 'broken'
  error: Error
}
