/** The interfaces between an exchange and the two lanes: the same for raw sockets, `node:http` and undici. */

/** A bid request whose head has arrived. */
export interface Inbound {
  /** A flat list of names and values, as received. */
  headers: readonly string[]
  /** `?…` with the question mark, or empty. */
  query: string
  remote: string
  secure: boolean
  /** `performance.now()` at the arrival of the head. */
  arrived: number
  reply: Reply
}

/** The response to the caller. No method is called after `whole`, `end` or `destroy`. */
export interface Reply {
  /** The caller is connected, and its response has not started. */
  readonly open: boolean
  /** Sends a whole response; `body` null: one without a body. Text is latin1. */
  whole(status: number, message: string, headers: string[], body: Buffer | string | null): void
  start(status: number, message: string, headers: string[]): void
  /** False: wait for `drained`. */
  write(chunk: Buffer): boolean
  drained(resume: () => void): void
  end(): void
  /** The response cannot be completed: the connection is closed, so that the caller does not take it for complete. */
  destroy(): void
}

/** A request that was sent to an endpoint. `abort` cancels it; its sink is not called afterwards. */
export interface UpstreamRequest {
  abort(): void
}

/** Receives the response of an endpoint, in this order. Nothing follows `end` or `fail`. */
export interface ResponseSink {
  head(status: number, message: string, headers: string[]): void
  /** False: the connection pauses until `resume` is called. */
  data(chunk: Buffer, resume: () => void): boolean
  end(): void
  fail(failure: SendFailure): void
}

export interface SendFailure {
  /**
   * `unsent`: no byte was written. `reused`: a reused connection closed before the first byte of the response.
   * Both may be sent once more. `broken`: any other failure; the request is not repeated.
   */
  kind: 'unsent' | 'reused' | 'broken'
  error: Error
}
