/**
 * Responses that arrive whole in one turn of the event loop are priced one after another, once the sockets are read, and sent
 * when all are priced. The code and data of pricing then stay in the caches of the processor. If each response was sent before
 * the next is priced, sockets and kernel would displace them, and a bid would take a quarter more CPU time.
 */
import { writeRequests } from '../upstream/request-batch.ts'

interface Waiting {
  /** `body` is valid only during the call. */
  price(body: Buffer, shared: true): void
  /** Sends the result of `price`, if there is one already. */
  sendPriced(): void
}

/** Bounds of a batch: it is priced in less than a millisecond, unless it has one long response. */
const maxResponses = 32
const maxBytes = 256 * 1024

const bytes = Buffer.allocUnsafeSlow(maxBytes)
const exchanges: Waiting[] = []
const bodies: Buffer[] = []
let used = 0
let isScheduled = false

/** Copies `body`, and prices it before the event loop waits for other events. */
export function priceSoon(exchange: Waiting, body: Buffer): void {
  const to = used + body.length
  if (to > maxBytes) {
    exchange.price(body, true)
    return exchange.sendPriced()
  }
  bytes.set(body, used)
  exchanges.push(exchange)
  bodies.push(bytes.subarray(used, to))
  used = to
  if (exchanges.length === maxResponses) return priceAll()
  if (isScheduled) return
  isScheduled = true
  setImmediate(priceScheduled)
}

function priceScheduled(): void {
  isScheduled = false
  priceAll()
}

function priceAll(): void {
  // First, so that the suppliers work on them while these responses are priced.
  writeRequests()
  // Neither loop reads from a socket, so neither list grows.
  for (let at = 0; at < exchanges.length; at++) exchanges[at]!.price(bodies[at]!, true)
  for (let at = 0; at < exchanges.length; at++) exchanges[at]!.sendPriced()
  exchanges.length = 0
  bodies.length = 0
  used = 0
}
