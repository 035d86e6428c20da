/**
 * One decision as the bid log stores it, and as a process sends it to the process that has the bid log of the node:
 *
 *   id length  bid id length  record length  id  bid id  record and features
 *   1          2              2
 */
import { hash } from 'node:crypto'
import { writeLatin1, writeUtf8 } from '../base/utf8.ts'
import type { BidLog } from '../ports.ts'
import { maxRecordBytes, readRecord, type WrittenRecord, writeRecord } from '../pricing/record.ts'
import type { DecisionRecord } from '../types.ts'

export const entryHeadBytes = 1 + 2 + 2
const longestBidId = 512

/** The key that a bid id is stored under: the id, or its hash if it is long. */
export const keyOf = (bidId: string) =>
  bidId.length * 3 <= longestBidId || Buffer.byteLength(bidId) <= longestBidId
    ? bidId
    : `sha256:${hash('sha256', bidId, 'hex')}`

/** Upper bound of the bytes of an entry. */
export const entryLimit = ({ id, features }: DecisionRecord, key: string) =>
  entryHeadBytes + id.length + key.length * 3 + maxRecordBytes + features.length

/** Returns the end of the entry. */
export function writeEntry(
  bytes: Buffer,
  start: number,
  record: DecisionRecord,
  key: string,
): number {
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
export const keyAt = (bytes: Buffer, start: number) => idAt(start) + bytes[start]!
export const recordAt = (bytes: Buffer, start: number) =>
  keyAt(bytes, start) + bytes.readUInt16BE(start + 1)
export const endOf = (bytes: Buffer, start: number) =>
  recordAt(bytes, start) + bytes.readUInt16BE(start + 3)
/** The time of the decision, milliseconds since the epoch. */
export const timeOf = (bytes: Buffer, start: number) =>
  bytes.readUIntBE(recordAt(bytes, start) + 1, 6)

const batchBytes = 256 * 1024

/**
 * The bid log of a process that sends its decisions to another one: entries in a buffer, sent when it is full and at each
 * `flush`. `find` finds nothing. `send` gets a view that is valid during the call, and the number of decisions in it.
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

/** The decisions of a batch. */
export function* recordsOf(batch: Buffer): Generator<DecisionRecord> {
  for (let from = 0; from < batch.length; from = endOf(batch, from)) {
    const id = batch.toString('latin1', idAt(from), keyAt(batch, from))
    const key = batch.toString('utf8', keyAt(batch, from), recordAt(batch, from))
    const record = readRecord(batch, recordAt(batch, from), endOf(batch, from), id, key)
    if (record !== null) yield record
  }
}
