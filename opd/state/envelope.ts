/**
 * The envelope of a delta: node, epoch and sequence number. `Learner.merge` commutes. Envelope and version vector ensure
 * that a delta is merged once, in any order, and only in its own epoch.
 *
 *   magic  epoch  sequence  node length  node  delta  crc32
 *   4      6      4         1            n     rest   4
 */
import { crc32 } from 'node:zlib'

export interface Envelope {
  /** Identifies one process. */
  node: string
  /** Rises with each roll-back; 0 before the first. */
  epoch: number
  /** From 1, without gaps. */
  sequence: number
  delta: Uint8Array
}

const magic = 0x62774445
const headBytes = 15

export function encodeEnvelope({ node, epoch, sequence, delta }: Envelope): Buffer {
  const bytes = Buffer.alloc(headBytes + node.length + delta.length + 4)
  bytes.writeUInt32BE(magic, 0)
  bytes.writeUIntBE(epoch, 4, 6)
  bytes.writeUInt32BE(sequence, 10)
  bytes[14] = node.length
  bytes.write(node, headBytes, 'latin1')
  bytes.set(delta, headBytes + node.length)
  bytes.writeUInt32BE(crc32(bytes.subarray(0, bytes.length - 4)), bytes.length - 4)
  return bytes
}

/** null: damaged, truncated, or not an envelope. */
export function decodeEnvelope(bytes: Buffer): Envelope | null {
  if (bytes.length < headBytes + 4 || bytes.readUInt32BE(0) !== magic) return null
  const end = bytes.length - 4
  if (bytes.readUInt32BE(end) !== crc32(bytes.subarray(0, end))) return null
  const deltaAt = headBytes + bytes[14]!
  if (deltaAt > end) return null
  return {
    node: bytes.toString('latin1', headBytes, deltaAt),
    epoch: bytes.readUIntBE(4, 6),
    sequence: bytes.readUInt32BE(10),
    delta: new Uint8Array(bytes.subarray(deltaAt, end)),
  }
}

/** By node: every sequence number up to `upTo`, and single ones beyond it. */
export type VersionVectorRows = [node: string, upTo: number, beyond: number[]][]

/** Sequence numbers kept beyond a gap. With more, the gap is given up. */
const maxBeyond = 1000
/** The stream keeps fewer deltas than this. */
const maxNodes = 2000

/** The deltas that were merged into a model. Bounded. */
export class VersionVector {
  private readonly nodes = new Map<string, { upTo: number; beyond: Set<number> }>()

  constructor(rows: VersionVectorRows = []) {
    for (const [node, upTo, beyond] of rows) this.nodes.set(node, { upTo, beyond: new Set(beyond) })
  }

  has(node: string, sequence: number): boolean {
    const known = this.nodes.get(node)
    return known !== undefined && (sequence <= known.upTo || known.beyond.has(sequence))
  }

  addSequence(node: string, sequence: number): void {
    const known = this.nodes.get(node) ?? { upTo: 0, beyond: new Set<number>() }
    // Order by last use: the first node is dropped when there are too many.
    this.nodes.delete(node)
    this.nodes.set(node, known)
    if (sequence > known.upTo) known.beyond.add(sequence)
    if (known.beyond.size > maxBeyond) known.upTo = Math.min(...known.beyond)
    known.beyond.delete(known.upTo)
    while (known.beyond.delete(known.upTo + 1)) known.upTo++
    const [oldest] = this.nodes.keys()
    if (this.nodes.size > maxNodes) this.nodes.delete(oldest!)
  }

  /** Whether it lacks a delta that another vector has. */
  lacks(other: VersionVectorRows): boolean {
    return other.some(
      ([node, upTo, beyond]) =>
        (upTo > 0 && !this.hasAll(node, upTo)) ||
        beyond.some((sequence) => !this.has(node, sequence)),
    )
  }

  private hasAll(node: string, upTo: number): boolean {
    const known = this.nodes.get(node)
    return known !== undefined && known.upTo >= upTo
  }

  /** Sequence numbers that are missing before others of the same node. */
  get missing(): number {
    let missing = 0
    for (const { upTo, beyond } of this.nodes.values())
      if (beyond.size > 0) missing += Math.max(...beyond) - upTo - beyond.size
    return missing
  }

  /** Gives up what is missing. */
  closeGaps(): void {
    for (const known of this.nodes.values()) {
      known.upTo = Math.max(known.upTo, ...known.beyond)
      known.beyond.clear()
    }
  }

  rows(): VersionVectorRows {
    return [...this.nodes].map(([node, { upTo, beyond }]) => [node, upTo, [...beyond]])
  }
}
