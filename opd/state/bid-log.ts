/**
 * The bid log of this node: decisions as bytes in slabs, found by a hash table of newest positions.
 *
 *   heads[hash of bid id] ──▶ newest record ──prev──▶ older record of the same row ──▶ … ──▶ evicted
 *
 *   slab 7 (oldest) ▏slab 8 ▏slab 9 ▏slab 10 (being filled)      the oldest slab is evicted as a whole
 *
 * There is no sweep, and no object for the garbage collector to mark: a million DecisionRecord objects in a Map take
 * hundreds of milliseconds of marking. A position is `slab number * slab size + offset`, so that a link to an evicted slab
 * is recognized by its number.
 */
import { hash } from 'node:crypto'
import type { DecisionRecord } from '../engine/types.ts'
import type { BidLog } from '../ports.ts'
import { maxRecordBytes, readRecord, writeRecord } from '../pricing/record.ts'
import { hashText } from '../shared/hash.ts'

interface BidLogOptions {
  /** Milliseconds for which a decision can be found. */
  ttl: number
  maxEntries?: number
  /** Off the JavaScript heap. */
  maxBytes?: number
  now: () => number
}

interface MemoryBidLog extends BidLog {
  readonly stats: { entries: number; bytes: number; evicted: number; expired: number }
  /** Changes `ttl` after a reload. */
  retain(ttl: number): void
}

const slabBytes = 1024 * 1024
/** `next` position, id length, bid id length, record length. */
const headBytes = 8 + 1 + 2 + 2
const longestBidId = 512
/** Bounds the records of one row that are read: a supplier may send the same bid id for ever. */
const maxChain = 1024
const noPosition = -1

interface Slab {
  number: number
  bytes: Buffer
  entries: number
  /** Time of its newest record. */
  newest: number
}

const keyOf = (bidId: string) =>
  bidId.length * 3 <= longestBidId || Buffer.byteLength(bidId) <= longestBidId
    ? bidId
    : `sha256:${hash('sha256', bidId, 'hex')}`

export function createBidLog(options: BidLogOptions): MemoryBidLog {
  const { maxEntries = 1_000_000, maxBytes = 256 * 1024 * 1024, now } = options
  let { ttl } = options
  const maxSlabs = Math.max(2, Math.floor(maxBytes / slabBytes))
  const rows = 2 ** Math.ceil(Math.log2(Math.max(1024, Math.min(maxEntries, 2 ** 20))))
  const heads = new Float64Array(rows).fill(noPosition)
  const slabs = new Map<number, Slab>()
  let oldest = 0
  let current: Slab | null = null
  let offset = 0
  const stats = { entries: 0, bytes: 0, evicted: 0, expired: 0 }

  function drop(slab: Slab, why: 'evicted' | 'expired'): void {
    slabs.delete(slab.number)
    stats.entries -= slab.entries
    stats[why] += slab.entries
    stats.bytes -= slabBytes
    oldest = slab.number + 1
  }

  function nextSlab(at: number): Slab {
    const number = current === null ? 0 : current.number + 1
    let spare: Buffer | null = null
    for (let slab = slabs.get(oldest); slab !== undefined; slab = slabs.get(oldest)) {
      const expired = slab.newest < at - ttl
      if (!expired && slabs.size < maxSlabs && stats.entries < maxEntries) break
      drop(slab, expired ? 'expired' : 'evicted')
      spare = slab.bytes
    }
    const slab = {
      number,
      bytes: spare ?? Buffer.allocUnsafeSlow(slabBytes),
      entries: 0,
      newest: 0,
    }
    slabs.set(number, slab)
    stats.bytes += slabBytes
    offset = 0
    return slab
  }

  function put(record: DecisionRecord): void {
    const key = keyOf(record.bidId)
    const needed =
      headBytes + record.id.length + key.length * 3 + maxRecordBytes + record.features.length
    if (needed > slabBytes) return
    const full = current === null || offset + needed > slabBytes
    if (full || current!.entries >= maxEntries / 2) current = nextSlab(record.at)
    const { bytes, number } = current!
    const row = hashText(key) & (rows - 1)
    const start = offset
    let at = start + headBytes
    const idEnd = at + bytes.write(record.id, at, 'latin1')
    const keyEnd = idEnd + bytes.write(key, idEnd, 'utf8')
    at = writeRecord(bytes, keyEnd, record, false)
    bytes.set(record.features, at)
    at += record.features.length
    bytes.writeDoubleBE(heads[row]!, start)
    bytes[start + 8] = idEnd - start - headBytes
    bytes.writeUInt16BE(keyEnd - idEnd, start + 9)
    bytes.writeUInt16BE(at - keyEnd, start + 11)
    heads[row] = number * slabBytes + start
    offset = at
    current!.entries++
    current!.newest = record.at
    stats.entries++
  }

  function find(bidId: string): DecisionRecord[] {
    const key = Buffer.from(keyOf(bidId))
    const found: DecisionRecord[] = []
    const earliest = now() - ttl
    let position = heads[hashText(keyOf(bidId)) & (rows - 1)]!
    for (let walked = 0; position !== noPosition && walked < maxChain; walked++) {
      const number = Math.floor(position / slabBytes)
      const slab = slabs.get(number)
      if (slab === undefined) break
      const { bytes } = slab
      const start = position - number * slabBytes
      const idAt = start + headBytes
      const keyAt = idAt + bytes[start + 8]!
      const recordAt = keyAt + bytes.readUInt16BE(start + 9)
      if (bytes.compare(key, 0, key.length, keyAt, recordAt) === 0) {
        const end = recordAt + bytes.readUInt16BE(start + 11)
        const id = bytes.toString('latin1', idAt, keyAt)
        const record = readRecord(bytes, recordAt, end, id, bidId)
        const known = record === null || found.some(({ supplier }) => supplier === record.supplier)
        if (!known && record.at >= earliest) found.push(record)
      }
      position = bytes.readDoubleBE(start)
    }
    return found
  }

  return {
    put,
    find,
    stats,
    retain: (next) => {
      ttl = next
    },
  }
}
