/**
 * Responses that arrive whole in one turn of the event loop are processed together once the sockets are read, stage by stage:
 * all are decoded, then all are priced, encoded and sent. The code and data of a stage then stay in the caches of the
 * processor. If each response was sent before the next is priced, sockets and kernel would displace them, and a bid would take
 * a quarter more CPU time. zlib, which decodes them, does so as well. Responses that are not priced, such as no-bids, are sent
 * together for the same reason: .98 of the CPU time of a no-bid.
 */
import { writeRequests } from '../upstream/fast-client.ts'

interface Waiting {
  /** `body` is valid until `sendEncoded` returns; `ownBytes` keeps it for longer. */
  decode(body: Buffer): void
  price(): void
  encode(): void
  sendEncoded(): void
}

/** Bounds of a batch: it is priced in less than a millisecond, unless it has one long response. */
const maxResponses = 32
const maxBytes = 256 * 1024
/**
 * A batch of several responses, but fewer than these, is held for those of the next turn, which begins at once: .98 of the CPU
 * time of the mix. A single response is not held: there is little work.
 */
const fewResponses = 12

export class ResponseBatch {
  /** The responses as received, one after another. */
  private readonly bytes = Buffer.allocUnsafeSlow(maxBytes)
  private used = 0
  private readonly exchanges: Waiting[] = []
  private readonly bodies: Buffer[] = []
  /** With responses that are not priced. */
  private readonly ready: Pick<Waiting, 'sendEncoded'>[] = []
  private isScheduled = false
  /** The batch was held for one turn. */
  private isHeld = false

  /** Copies `body`, and prices it with the others, before the event loop waits for other events. */
  priceSoon(exchange: Waiting, body: Buffer): void {
    const { exchanges, bodies, bytes } = this
    if (this.used + body.length > maxBytes) this.priceAll()
    if (body.length > maxBytes) {
      exchange.decode(Buffer.from(body))
      exchange.price()
      exchange.encode()
      return exchange.sendEncoded()
    }
    const from = this.used
    this.used += body.length
    bytes.set(body, from)
    exchanges.push(exchange)
    bodies.push(bytes.subarray(from, this.used))
    if (exchanges.length === maxResponses) return this.priceAll()
    this.schedule()
  }

  /** Sends the response of this exchange, which is not priced, before the event loop waits for other events. */
  sendSoon(exchange: Pick<Waiting, 'sendEncoded'>): void {
    this.ready.push(exchange)
    this.schedule()
  }

  private schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    setImmediate(this.runScheduled)
  }

  /** The same bytes, not in the memory of the batch, which the next one uses again. */
  ownBytes(body: Buffer): Buffer {
    return body.buffer === this.bytes.buffer ? Buffer.from(body) : body
  }

  private readonly runScheduled = (): void => {
    this.isScheduled = false
    const { length } = this.exchanges
    if (this.isHeld || length <= 1 || length >= fewResponses) return this.priceAll()
    this.isHeld = true
    this.sendReady()
    this.schedule()
  }

  private sendReady(): void {
    // First, so that the suppliers work on them meanwhile.
    writeRequests()
    const { ready } = this
    // No loop of this class reads from a socket, so no list grows.
    for (const exchange of ready) exchange.sendEncoded()
    ready.length = 0
  }

  private priceAll(): void {
    const { exchanges, bodies } = this
    this.isHeld = false
    this.sendReady()
    for (let index = 0; index < exchanges.length; index++) exchanges[index]!.decode(bodies[index]!)
    for (const exchange of exchanges) exchange.price()
    for (const exchange of exchanges) exchange.encode()
    for (const exchange of exchanges) exchange.sendEncoded()
    exchanges.length = 0
    bodies.length = 0
    this.used = 0
  }
}
