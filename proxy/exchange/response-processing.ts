/** An answer that was kept whole: look ▸ decode ▸ rewrite ▸ encode again (CONTRACT 4). */
import type { Engine, RequestSource, RewrittenResponse } from '../../opd/engine/types.ts'
import type { Admission } from '../admission.ts'
import type { Supplier } from '../supplier.ts'
import { withRoom } from './body-buffer.ts'
import { type Decoded, decodeLater, decodeNow, type Encoding } from './encoding.ts'
import { type Answer, finishAnswer, notLookedAt, unreadableReason } from './response.ts'

export type Verdict = Answer | { kind: 'no_bid'; reason: 'unreadable' | 'inactive' }

/** Whose answer it is and who waits for it. */
export interface Reader {
  readonly supplier: Supplier
  readonly status: number
  /** Somebody still wants the verdict. */
  readonly waiting: boolean
  /** The request decoded; null: it cannot be read. */
  request(): ReturnType<RequestSource>
  /** So many bytes more are held until it is over. False: more than the node may. */
  hold(bytes: number): boolean
  concluded(verdict: Verdict): void
}

export interface ReadingContext extends Pick<Admission, 'budget'> {
  engine: Engine
  limits: Admission['limits'] & { maxRewriteBytes: number }
  recompress: 'same' | 'identity'
}

/** Whether an answer with this head is kept and looked at. */
export function wantsReading(
  { supplier, status }: Pick<Reader, 'supplier' | 'status'>,
  headers: readonly string[],
  engine: Engine,
): boolean {
  if (status < 200 || status >= 300 || status === 204) return false
  const reason = status === 200 ? notLookedAt(headers) : null
  const reads = engine.readsResponses(supplier.id)
  if (reason !== null && reads) engine.countUnmodified(supplier.id, reason)
  // Whatever success a supplier calls it: bids of a seat that is switched off stay here.
  if (supplier.inactiveSeats.size > 0) return true
  if (status !== 200 || reason !== null) return false
  if (!reads) engine.countUnread(supplier.id)
  return reads
}

export class Reading {
  private readonly reader: Reader
  private readonly context: ReadingContext
  private readonly headers: readonly string[]
  private readonly wire: Buffer

  /** `wire`: the body as it came. */
  constructor(reader: Reader, context: ReadingContext, headers: readonly string[], wire: Buffer) {
    this.reader = reader
    this.context = context
    this.headers = headers
    this.wire = wire
  }

  look(): void {
    const { headers, wire, context } = this
    const { maxRewriteBytes, maxHeldBytes } = context.limits
    const now = decodeNow(headers, wire, maxRewriteBytes)
    if (now !== null) return this.decodedTo(now)
    const decoded = withRoom(context.budget, maxRewriteBytes, maxHeldBytes, () =>
      decodeLater(headers, wire, maxRewriteBytes),
    )
    if (decoded === null) return this.undecoded('too_large')
    void decoded.then((late) => {
      if (this.reader.waiting) this.decodedTo(late)
    })
  }

  private decodedTo(decoded: Decoded): void {
    if (!decoded.ok) return this.undecoded(decoded.reason)
    const bytes = decoded.body === this.wire ? 0 : decoded.body.length
    if (bytes > 0 && !this.reader.hold(bytes)) return this.undecoded('too_large')
    this.rewrite(decoded.body, decoded.encoding)
  }

  private undecoded(reason: 'encoding' | 'too_large'): void {
    const { supplier } = this.reader
    if (supplier.inactiveSeats.size > 0) return this.noBid(unreadableReason)
    this.context.engine.countUnmodified(supplier.id, reason)
    this.reader.concluded({ kind: 'as_is', body: this.wire })
  }

  private noBid(reason: 'unreadable' | 'inactive'): void {
    this.reader.concluded({ kind: 'no_bid', reason })
  }

  private rewrite(body: Buffer, encoding: Encoding): void {
    const { supplier } = this.reader
    const turns = this.context.engine.rewriteInSlices({
      supplier: supplier.id,
      body,
      request: () => this.reader.request(),
      inactiveSeats: supplier.inactiveSeats,
      seatsOnly: this.reader.status !== 200 || notLookedAt(this.headers) !== null,
    })
    const goOn = () => {
      if (!this.reader.waiting) return
      const turn = turns.next()
      if (turn.done) this.rewritten(body, encoding, turn.value)
      else if (turn.value === undefined) setImmediate(goOn)
      else void turn.value.then(goOn)
    }
    goOn()
  }

  private rewritten(body: Buffer, encoding: Encoding, rewritten: RewrittenResponse): void {
    if (rewritten.unreadable) return this.noBid(unreadableReason)
    if (rewritten.removed > 0 && rewritten.left === 0) return this.noBid('inactive')
    if (rewritten.body === body) return this.reader.concluded({ kind: 'as_is', body: this.wire })
    const finished = finishAnswer(rewritten.body, encoding, this.context.recompress)
    if (!(finished instanceof Promise)) return this.reader.concluded(finished)
    void finished.then((answer) => {
      if (this.reader.waiting) this.reader.concluded(answer)
    })
  }
}
