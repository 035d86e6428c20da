/** Publisher and domain as they are kept: cut by hashing beyond 64 and 96 bytes (CONTRACT 5). */
import { hash } from 'node:crypto'

export const longestPublisher = 64
export const longestDomain = 96

/** A text of at most `most` bytes: itself, or what fits before a mark and 16 hex digits of its SHA-256. */
export function cut(text: string | undefined, most: number): string {
  if (text === undefined) return ''
  // a UTF-16 unit takes at most three bytes
  if (text.length * 3 <= most || Buffer.byteLength(text) <= most) return text
  const digest = hash('sha256', text, 'hex').slice(0, 16)
  const kept = Buffer.from(text.slice(0, most)).subarray(0, most - 17)
  return `${kept.toString('utf8').replace(/\uFFFD+$/, '')}~${digest}`
}

/** A name as the decision log knows it: 16 hex digits of its SHA-256. */
export function hashed(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 16)
}
