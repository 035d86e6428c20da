/**
 * Keys of TLS session tickets (RFC 5077, RFC 8446 4.6.1). Processes and nodes that have the same secret accept each other's
 * tickets. The key changes with each period; a ticket of the period before costs its caller a full handshake.
 */
import { createHash, hkdfSync, randomBytes } from 'node:crypto'

/** Milliseconds that a key is used. */
const ticketPeriod = 12 * 3_600_000

/** Name, HMAC key and AES key, as Node.js takes them. */
const keyBytes = 48

/** The secret of a period; that of the next one is derived from it. */
export interface TicketSecret {
  period: number
  secret: Uint8Array
}

const derive = (secret: Uint8Array, info: string, length: number) =>
  Buffer.from(hkdfSync('sha256', secret, '', `bidweir TLS tickets: ${info}`, length))

/**
 * The number of the period of a time.
 *
 * @param now milliseconds since the epoch
 */
export const ticketPeriodOf = (now: number) => Math.floor(now / ticketPeriod)

/** The keys of TLS session tickets, which change with each period. */
export class TicketKeys {
  /** Without a configured secret: each period has its own, and that of the period before is forgotten. */
  private current: TicketSecret

  /** `current`: that of another process of the node. */
  constructor(current: TicketSecret | null, now: number) {
    this.current = current ?? { period: ticketPeriodOf(now), secret: randomBytes(32) }
  }

  /**
   * For a process that starts now.
   *
   * @param now milliseconds since the epoch; not earlier than in the last call
   */
  secret(now: number): TicketSecret {
    while (this.current.period < ticketPeriodOf(now)) {
      const { period, secret } = this.current
      this.current = { period: period + 1, secret: derive(secret, 'next', 32) }
    }
    return this.current
  }

  /**
   * @param configured 32 bytes that several nodes share, in base64url; null: the secret of this node's processes
   * @param trusted the CA of callers: a ticket contains a certificate that was verified with it
   */
  key(now: number, configured: string | null, trusted: string): Buffer {
    const { secret } = this.secret(now)
    const digest = createHash('sha256').update(trusted).digest('hex')
    return configured === null
      ? derive(secret, digest, keyBytes)
      : derive(Buffer.from(configured, 'base64url'), `${ticketPeriodOf(now)} ${digest}`, keyBytes)
  }
}
