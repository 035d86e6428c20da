/**
 * What a delta travels in: who learned it, in which epoch, its number. The learner's merge commutes; that one delta
 * counts once, in any order, however often it comes, and never in another epoch than its own, is seen to here.
 *
 *   magic  epoch  sequence  node length  node  delta  crc32
 *   4      6      4         1            n     rest   4
 */
import { crc32 } from 'node:zlib'

export interface Envelope {
  /** One life of one process. */
  node: string
  /** Rises with each rollback; milliseconds since the Unix epoch, 0 before the first. */
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

/** null: damaged, cut, or something else. */
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

/** By node: all up to a number, and single ones beyond it. */
export type VersionVectorRows = [node: string, upTo: number, beyond: number[]][]

/** Gaps of one node that may still be filled; older ones are given up. */
const widest = 1000
/** Nodes remembered: the stream itself keeps fewer deltas than that. */
const mostNodes = 2000

/** Which deltas are in a model. Bounded. */
export class VersionVector {
  private readonly nodes = new Map<string, { upTo: number; beyond: Set<number> }>()

  constructor(rows: VersionVectorRows = []) {
    for (const [node, upTo, beyond] of rows) this.nodes.set(node, { upTo, beyond: new Set(beyond) })
  }

  has(node: string, sequence: number): boolean {
    const known = this.nodes.get(node)
    return known !== undefined && (sequence <= known.upTo || known.beyond.has(sequence))
  }

  add(node: string, sequence: number): void {
    const known = this.nodes.get(node) ?? { upTo: 0, beyond: new Set<number>() }
    // The last heard stands last: the first is who may be forgotten.
    this.nodes.delete(node)
    this.nodes.set(node, known)
    if (sequence > known.upTo) known.beyond.add(sequence)
    if (known.beyond.size > widest) known.upTo = Math.min(...known.beyond)
    known.beyond.delete(known.upTo)
    while (known.beyond.delete(known.upTo + 1)) known.upTo++
    const [oldest] = this.nodes.keys()
    if (this.nodes.size > mostNodes) this.nodes.delete(oldest!)
  }

  rows(): VersionVectorRows {
    return [...this.nodes].map(([node, { upTo, beyond }]) => [node, upTo, [...beyond]])
  }
}
