/**
 * A copy of a share of the requests to a second endpoint (`mirror`), whose responses are read, compared with those of the
 * supplier, and thrown away. It has no effect on the caller's response: no wait, no place in a limit, no memory of its budget.
 */

import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import type { MirrorConfig } from '../config.ts'
import type { MirrorMetrics, MirrorOutcome } from '../metrics.ts'
import type { Body, Inbound, ResponseHead, ResponseSink, UpstreamRequest } from '../types.ts'
import { type AttemptContext, type Endpoint, requestHead } from '../upstream/endpoints.ts'
import type { ConfiguredHeaders } from '../wire/configured-headers.ts'
import { header } from '../wire/headers.ts'

/** Requests at the mirror at once. Further ones are not copied. */
const maxInFlight = 64
/** Bytes of a response that are kept for the comparison, and of it decoded: what JSON.parse reads in less than a millisecond. */
const maxBody = 128 * 1024

class Captured {
  readonly head: ResponseHead
  readonly body: Buffer

  constructor(head: ResponseHead, body: Buffer) {
    this.head = head
    this.body = body
  }
}

/** What is known of a response; `late`: it is not complete. */
type Result = Captured | 'late' | 'failed'

/** Receives a response of up to `maxBody` bytes. */
class Capture implements ResponseSink {
  private readonly onEnd: (result: Result) => void
  private readonly chunks: Buffer[] = []
  private response: ResponseHead | null = null
  private length = 0

  /** @param onEnd failed: the response is not whole, or too long */
  constructor(onEnd: Capture['onEnd']) {
    this.onEnd = onEnd
  }

  head(head: ResponseHead): void {
    this.response = head
  }

  data(chunk: Buffer): boolean {
    this.length += chunk.length
    if (this.length <= maxBody) this.chunks.push(chunk)
    else this.chunks.length = 0
    return true
  }

  end(): void {
    const { response, chunks, length } = this
    const isWhole = response !== null && length <= maxBody
    this.onEnd(isWhole ? new Captured(response, Buffer.concat(chunks)) : 'failed')
  }

  fail(): void {
    this.onEnd('failed')
  }
}

/** Passes the supplier's response on, and keeps a copy. */
class Tee implements ResponseSink {
  private readonly sink: ResponseSink
  private readonly capture: Capture
  readonly takeBody?: (body: Buffer, now: number) => void

  constructor(sink: ResponseSink, capture: Capture) {
    this.sink = sink
    this.capture = capture
    if (sink.takeBody !== undefined)
      this.takeBody = (body, now) => {
        capture.data(Buffer.from(body))
        sink.takeBody!(body, now)
        capture.end()
      }
  }

  head(head: ResponseHead, length: number | null): void {
    this.capture.head(head)
    this.sink.head(head, length)
  }

  data(chunk: Buffer, resume: () => void): boolean {
    this.capture.data(chunk)
    return this.sink.data(chunk, resume)
  }

  end(now: number): void {
    this.sink.end(now)
    this.capture.end()
  }

  fail(...failure: Parameters<ResponseSink['fail']>): void {
    this.sink.fail(...failure)
    this.capture.fail()
  }
}

/** The responses to a request and to its copy. They are compared when both are complete, or the time is over. */
class Pair {
  private real: Result = 'late'
  private mirrored: Result = 'late'
  private readonly onEnd: (real: Result, mirrored: Result) => void
  private readonly timer: NodeJS.Timeout
  private request: UpstreamRequest | null = null
  private ended = false

  constructor(timeout: number, onEnd: Pair['onEnd']) {
    this.onEnd = onEnd
    this.timer = setTimeout(() => this.end(), timeout)
  }

  sent(request: UpstreamRequest): void {
    this.request = request
  }

  settle(side: 'real' | 'mirrored', result: Result): void {
    if (this[side] === 'late') this[side] = result
    // The caller's response is written in this turn of the event loop.
    if (this.real !== 'late' && this.mirrored !== 'late') setImmediate(() => this.end())
  }

  private end(): void {
    if (this.ended) return
    this.ended = true
    clearTimeout(this.timer)
    if (this.mirrored === 'late') this.request?.abort()
    this.onEnd(this.real, this.mirrored)
  }
}

function outcomeOf(result: Result): MirrorOutcome {
  if (result === 'late') return 'timeout'
  if (result === 'failed') return 'error'
  return result.head.status === 204 ? 'no_bid' : 'answer'
}

const decoders: Readonly<Record<string, (body: Buffer) => Promise<Buffer>>> = {
  gzip: (body) => promisify(zlib.gunzip)(body, { maxOutputLength: maxBody }),
  deflate: (body) => promisify(zlib.inflate)(body, { maxOutputLength: maxBody }),
  br: (body) => promisify(zlib.brotliDecompress)(body, { maxOutputLength: maxBody }),
}

/** The prices of a bid response, in ascending order; null: it cannot be read. */
async function pricesOf({ head, body }: Captured): Promise<number[] | null> {
  if (body.length === 0) return []
  const coding = header(head.fields, 'content-encoding') ?? 'identity'
  try {
    const decode = decoders[coding]
    if (decode === undefined && coding !== 'identity') return null
    const text = decode === undefined ? body : await decode(body)
    const { seatbid = [] } = JSON.parse(text.toString('utf8')) as {
      seatbid?: { bid?: { price?: unknown }[] }[]
    }
    return seatbid
      .flatMap(({ bid = [] }) => bid.map(({ price }) => Number(price)))
      .sort((one, other) => one - other)
  } catch {
    return null
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

/** Copies a share of the requests of a supplier to another endpoint, and ignores its responses. */
export class Mirror {
  config: MirrorConfig
  readonly endpoint: Endpoint
  private readonly metrics: MirrorMetrics
  private inFlight = 0

  constructor(config: MirrorConfig, endpoint: Endpoint, metrics: MirrorMetrics) {
    this.config = config
    this.endpoint = endpoint
    this.metrics = metrics
  }

  /** @param config of the same endpoint; its share may differ */
  configure(config: MirrorConfig): this {
    this.config = config
    return this
  }

  /**
   * Called when a request is sent to the supplier. If the request is copied, the result is a sink that also keeps the
   * supplier's response for the comparison.
   * @param timeout milliseconds after which both responses are compared, complete or not
   */
  copy(
    request: { inbound: Inbound; body: Body; rules: ConfiguredHeaders | null; timeout: number },
    context: AttemptContext,
    sink: ResponseSink,
  ): ResponseSink {
    if (Math.random() >= this.config.share) return sink
    if (this.inFlight >= maxInFlight) {
      this.metrics.requested('skipped')
      return sink
    }
    this.inFlight++
    const { inbound, body, rules, timeout } = request
    const head = requestHead(inbound, this.endpoint, rules, context)
    const pair = new Pair(timeout, (real, mirrored) => {
      this.inFlight--
      this.metrics.requested(outcomeOf(mirrored))
      if (mirrored instanceof Captured) void this.compare(real, mirrored)
    })
    // The supplier's request is written first.
    setImmediate(() => {
      const connection = this.endpoint.pool.acquire(false, performance.now())
      pair.sent(connection)
      connection.dispatch(head, body, new Capture((captured) => pair.settle('mirrored', captured)))
    })
    return new Tee(sink, new Capture((captured) => pair.settle('real', captured)))
  }

  private async compare(real: Result, mirrored: Captured): Promise<void> {
    const { metrics } = this
    if (!(real instanceof Captured)) return metrics.compared('unknown')
    if (real.head.status !== mirrored.head.status) return metrics.compared('status')
    const [ofReal, ofMirror] = await Promise.all([pricesOf(real), pricesOf(mirrored)])
    if (ofReal === null || ofMirror === null) return metrics.compared('unknown')
    metrics.priced([ofReal.length, ofMirror.length], [sum(ofReal), sum(ofMirror)])
    if (ofReal.length !== ofMirror.length) return metrics.compared('bids')
    const isSame = ofReal.every((price, index) => price === ofMirror[index])
    metrics.compared(isSame ? 'same' : 'prices')
  }
}
