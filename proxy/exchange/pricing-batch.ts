/**
 * Whole responses that arrive in one turn of the event loop are priced one after another, when the sockets are read, and sent
 * when all are priced: what pricing needs then stays in the caches of the processor. Sockets and kernel would take them in
 * between, and a bid would take a quarter more of CPU time.
 */
import { writeRequests } from '../upstream/request-batch.ts'

interface Waiting {
  /** `body` is valid only during the call. */
  price(body: Buffer, shared: true): void
  /** Sends what was priced, unless that takes longer. */
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
  // Suppliers work meanwhile.
  writeRequests()
  // Nothing is read from a socket meanwhile.
  for (let at = 0; at < exchanges.length; at++) exchanges[at]!.price(bodies[at]!, true)
  for (let at = 0; at < exchanges.length; at++) exchanges[at]!.sendPriced()
  exchanges.length = 0
  bodies.length = 0
  used = 0
}
