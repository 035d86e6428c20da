/**
 * The bid log of a process whose decisions are found in another one: entries in a buffer, sent when it is full and at each
 * `flush`. Nothing is found here.
 */
import type { BidLog } from '../ports.ts'
import type { WrittenRecord } from '../pricing/record.ts'
import { entryLimit, keyOf, recordAt, writeEntry } from './bid-entry.ts'

const batchBytes = 256 * 1024

interface BidBatch extends BidLog {
  flush(): void
}

/** `send` gets a view that is valid during the call, and the number of decisions in it. */
export function createBidBatch(send: (entries: Buffer, count: number) => void): BidBatch {
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
