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
import { hashText } from '../base/hash.ts'
import { uncountedMemory } from '../base/uncounted-memory.ts'
import type { BidLog } from '../ports.ts'
import {
  maxRecordBytes,
  readRecord,
  type WrittenRecord,
  writeLatin1,
  writeRecord,
  writeUtf8,
} from '../pricing/record.ts'
import type { DecisionRecord } from '../types.ts'

/**
 * One decision as the bid log stores it, and as a process sends it to the process that has the bid log of the node:
 *
 *   id length  bid id length  record length  id  bid id  record and features
 *   1          2              2
 */

const entryHeadBytes = 1 + 2 + 2
const longestBidId = 512

/** The key that a bid id is stored under: the id, or its hash if it is long. */
export const keyOf = (bidId: string) =>
  bidId.length * 3 <= longestBidId || Buffer.byteLength(bidId) <= longestBidId
    ? bidId
    : `sha256:${hash('sha256', bidId, 'hex')}`

/** Upper bound of the bytes of an entry. */
const entryLimit = ({ id, features }: DecisionRecord, key: string) =>
  entryHeadBytes + id.length + key.length * 3 + maxRecordBytes + features.length

/** Returns the end of the entry. */
function writeEntry(bytes: Buffer, start: number, record: DecisionRecord, key: string): number {
  const idAt = start + entryHeadBytes
  writeLatin1(bytes, idAt, record.id)
  const idEnd = idAt + record.id.length
  const keyEnd = writeUtf8(bytes, idEnd, key)
  let end = writeRecord(bytes, keyEnd, record)
  bytes.set(record.features, end)
  end += record.features.length
  bytes[start] = idEnd - idAt
  bytes.writeUInt16BE(keyEnd - idEnd, start + 1)
  bytes.writeUInt16BE(end - keyEnd, start + 3)
  return end
}

const idAt = (start: number) => start + entryHeadBytes
const keyAt = (bytes: Buffer, start: number) => idAt(start) + bytes[start]!
const recordAt = (bytes: Buffer, start: number) =>
  keyAt(bytes, start) + bytes.readUInt16BE(start + 1)
const endOf = (bytes: Buffer, start: number) =>
  recordAt(bytes, start) + bytes.readUInt16BE(start + 3)
/** The time of the decision, milliseconds since the epoch. */
const timeOf = (bytes: Buffer, start: number) => bytes.readUIntBE(recordAt(bytes, start) + 1, 6)

const batchBytes = 256 * 1024

/**
 * The bid log of a process that sends its decisions to another one: entries in a buffer, sent when it is full and at each
 * `flush`. `find` finds nothing.
 *
 * @param send gets a view that is valid during the call, and the number of decisions in it, 1 or more
 */
export function createBidBatch(
  send: (entries: Buffer, count: number) => void,
): BidLog & { flush(): void } {
  const bytes = Buffer.allocUnsafeSlow(batchBytes)
  const view = new DataView(bytes.buffer, bytes.byteOffset, batchBytes)
  const written: WrittenRecord = { view, start: 0, end: 0 }
  let offset = 0
  let count = 0
  const flush = () => {
    if (offset === 0) return
    send(bytes.subarray(0, offset), count)
    offset = 0
    count = 0
  }
  return {
    put(record) {
      const key = keyOf(record.bidId)
      const needed = entryLimit(record, key)
      if (needed > batchBytes) return null
      if (offset + needed > batchBytes) flush()
      const start = offset
      offset = writeEntry(bytes, start, record, key)
      written.start = recordAt(bytes, start)
      written.end = offset
      count++
      return written
    },
    find: () => [],
    flush,
  }
}

/**
 * The decisions of a batch. One that cannot be read is left out.
 *
 * @param batch bytes of a batch of this version of the program, as another process of the node sent them
 */
export function* recordsOf(batch: Buffer): Generator<DecisionRecord> {
  for (let from = 0; from < batch.length; from = endOf(batch, from)) {
    const id = batch.toString('latin1', idAt(from), keyAt(batch, from))
    const key = batch.toString('utf8', keyAt(batch, from), recordAt(batch, from))
    const record = readRecord(batch, recordAt(batch, from), endOf(batch, from), id, key)
    if (record !== null) yield record
  }
}

interface BidLogOptions {
  /** Milliseconds for which a decision can be found. */
  ttl: number
  maxEntries?: number
  /** Off the JavaScript heap. */
  maxBytes?: number
  now: () => number
}

const slabBytes = 1024 * 1024
/** Position of the record before it in its row. An entry follows. */
const linkBytes = 8
const headBytes = linkBytes + entryHeadBytes
/** Bounds the records of one row that are read: a supplier may send the same bid id for ever. */
const maxChain = 1024
const noPosition = -1

interface SlabMemory {
  bytes: Buffer
  view: DataView
}

interface Slab extends SlabMemory {
  number: number
  entries: number
  /** Time of its newest record. */
  newest: number
}

/** Batches of other processes come late, so the record that was written last need not be the latest. */
function keepLatest(found: DecisionRecord[], record: DecisionRecord): void {
  const index = found.findIndex(({ supplier }) => supplier === record.supplier)
  if (index === -1) found.push(record)
  else if (found[index]!.decidedAt < record.decidedAt) found[index] = record
}

/** Where the entries of a slab begin, in the order in which they were written. */
function entriesOf({ bytes, entries }: Slab): number[] {
  const starts: number[] = []
  for (let start = 0; starts.length < entries; start = endOf(bytes, start + linkBytes))
    starts.push(start)
  return starts
}

/**
 * The bid log of this process, in slabs of memory: the oldest slab is dropped when the limit of memory is reached. The memory of
 * dropped slabs is kept for the next ones.
 */
export class LocalBidLog implements BidLog {
  readonly stats = { entries: 0, bytes: 0, evicted: 0, expired: 0 }
  private readonly now: () => number
  private readonly maxEntries: number
  private readonly maxSlabs: number
  private ttl: number
  private readonly rows: number
  private readonly heads: Float64Array
  private readonly slabs = new Map<number, Slab>()
  private readonly spare: SlabMemory[] = []
  private oldest = 0
  private current: Slab | null = null
  private offset = 0
  private readonly written: WrittenRecord = {
    view: new DataView(new ArrayBuffer(0)),
    start: 0,
    end: 0,
  }

  constructor(options: BidLogOptions) {
    const { maxEntries = 1_000_000, maxBytes = 256 * 1024 * 1024, now, ttl } = options
    this.now = now
    this.ttl = ttl
    this.maxEntries = maxEntries
    this.maxSlabs = Math.max(2, Math.floor(maxBytes / slabBytes))
    this.rows = 2 ** Math.ceil(Math.log2(Math.max(1024, Math.min(maxEntries, 2 ** 20))))
    this.heads = new Float64Array(this.rows).fill(noPosition)
  }

  /** @param ttl milliseconds for which a decision can be found, of those that are already in the log, too */
  retain(ttl: number): void {
    this.ttl = ttl
  }

  put(record: DecisionRecord): WrittenRecord | null {
    const key = keyOf(record.bidId)
    const needed = linkBytes + entryLimit(record, key)
    if (needed > slabBytes) return null
    const slab = this.slabFor(needed, record.decidedAt)
    const { bytes, view } = slab
    const { written } = this
    const start = this.offset + linkBytes
    const end = writeEntry(bytes, start, record, key)
    written.view = view
    written.start = recordAt(bytes, start)
    written.end = end
    this.link(slab, key, end, record.decidedAt)
    return written
  }

  /** Adds the decisions of another process of this node, as its batch of entries has them. */
  append(batch: Buffer): void {
    for (let from = 0; from < batch.length; ) {
      const until = endOf(batch, from)
      const time = timeOf(batch, from)
      const slab = this.slabFor(linkBytes + until - from, time)
      const start = this.offset + linkBytes
      batch.copy(slab.bytes, start, from, until)
      const key = batch.toString('utf8', keyAt(batch, from), recordAt(batch, from))
      this.link(slab, key, start + until - from, time)
      from = until
    }
  }

  find(bidId: string): DecisionRecord[] {
    const key = Buffer.from(keyOf(bidId))
    const found: DecisionRecord[] = []
    const earliest = this.now() - this.ttl
    let position = this.heads[hashText(keyOf(bidId)) & (this.rows - 1)]!
    for (let walked = 0; position !== noPosition && walked < maxChain; walked++) {
      const number = Math.floor(position / slabBytes)
      const slab = this.slabs.get(number)
      if (slab === undefined) break
      const { bytes } = slab
      const start = position - number * slabBytes
      const entry = start + linkBytes
      const recordFrom = recordAt(bytes, entry)
      if (bytes.compare(key, 0, key.length, keyAt(bytes, entry), recordFrom) === 0) {
        const id = bytes.toString('latin1', start + headBytes, keyAt(bytes, entry))
        const record = readRecord(bytes, recordFrom, endOf(bytes, entry), id, bidId)
        if (record !== null && record.decidedAt >= earliest) keepLatest(found, record)
      }
      position = bytes.readDoubleBE(start)
    }
    return found
  }

  /**
   * Decisions in batches, newest slab first. Those that are written or evicted meanwhile are left out.
   *
   * @param since milliseconds since the epoch; decisions before it are left out
   * @param size decisions of one batch, at most
   */
  *batches(since: number, size: number): Generator<DecisionRecord[]> {
    for (const number of [...this.slabs.keys()].reverse()) {
      const slab = this.slabs.get(number)
      if (slab === undefined || slab.newest < since) continue
      const starts = entriesOf(slab)
      while (starts.length > 0 && this.slabs.get(number) === slab) {
        const batch: DecisionRecord[] = []
        for (const start of starts.splice(-size).reverse()) {
          const entry = start + linkBytes
          const [key, from] = [keyAt(slab.bytes, entry), recordAt(slab.bytes, entry)]
          const id = slab.bytes.toString('latin1', start + headBytes, key)
          const bidId = slab.bytes.toString('utf8', key, from)
          const record = readRecord(slab.bytes, from, endOf(slab.bytes, entry), id, bidId)
          if (record !== null && record.decidedAt >= since) batch.push(record)
        }
        if (batch.length > 0) yield batch
      }
    }
  }

  /** The entries of each slab that can still be found, oldest slab first, as `append` takes them. */
  *parts(): Generator<Buffer> {
    const earliest = this.now() - this.ttl
    for (const number of [...this.slabs.keys()]) {
      const slab = this.slabs.get(number)
      if (slab === undefined || slab.newest < earliest) continue
      const entries = entriesOf(slab)
        .map((start) => start + linkBytes)
        .filter((entry) => timeOf(slab.bytes, entry) >= earliest)
        .map((entry) => slab.bytes.subarray(entry, endOf(slab.bytes, entry)))
      if (entries.length > 0) yield Buffer.concat(entries)
    }
  }

  /** The slab that has room for an entry. */
  private slabFor(needed: number, time: number): Slab {
    const { current, maxEntries } = this
    const isFull = current === null || this.offset + needed > slabBytes
    if (!isFull && current.entries < maxEntries / 2) return current
    this.current = this.nextSlab(time)
    return this.current
  }

  private nextSlab(time: number): Slab {
    const { slabs, stats } = this
    const number = this.current === null ? 0 : this.current.number + 1
    for (let slab = slabs.get(this.oldest); slab !== undefined; slab = slabs.get(this.oldest)) {
      const expired = slab.newest < time - this.ttl
      if (!expired && slabs.size < this.maxSlabs && stats.entries < this.maxEntries) break
      this.drop(slab, expired ? 'expired' : 'evicted')
    }
    const { bytes, view } = this.spare.pop() ?? this.takeMemory()
    const slab = { number, bytes, view, entries: 0, newest: 0 }
    slabs.set(number, slab)
    this.offset = 0
    return slab
  }

  private takeMemory(): SlabMemory {
    this.stats.bytes += slabBytes
    const { buffer } = uncountedMemory(slabBytes)
    return { bytes: Buffer.from(buffer), view: new DataView(buffer) }
  }

  private drop(slab: Slab, why: 'evicted' | 'expired'): void {
    this.slabs.delete(slab.number)
    this.spare.push({ bytes: slab.bytes, view: slab.view })
    this.stats.entries -= slab.entries
    this.stats[why] += slab.entries
    this.oldest = slab.number + 1
  }

  /** Links the entry that was written after the link at `offset`. */
  private link(slab: Slab, key: string, end: number, time: number): void {
    const row = hashText(key) & (this.rows - 1)
    slab.view.setFloat64(this.offset, this.heads[row]!)
    this.heads[row] = slab.number * slabBytes + this.offset
    this.offset = end
    slab.entries++
    slab.newest = time
    this.stats.entries++
  }
}
