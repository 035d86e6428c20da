/** Publishers, domains and seats in records and logs: truncated with a hash beyond 64, 96 and 64 bytes (CONTRACT 5). */
import { hash } from 'node:crypto'

export const maxPublisherBytes = 64
export const maxDomainBytes = 96
export const maxSeatBytes = 64

/** A text of at most `most` bytes: the text itself, or its beginning, `~`, and 16 hex digits of its SHA-256. */
export function truncateWithHash(text: string | undefined, most: number): string {
  if (text === undefined) return ''
  // A UTF-16 unit takes at most three bytes.
  if (text.length * 3 <= most || Buffer.byteLength(text) <= most) return text
  const digest = hash('sha256', text, 'hex').slice(0, 16)
  const kept = Buffer.from(text.slice(0, most)).subarray(0, most - 17)
  return `${kept.toString('utf8').replace(/\uFFFD+$/, '')}~${digest}`
}

/** The pseudonym of a name in the decision log: 16 hex digits of its SHA-256. */
export function hashName(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 16)
}
