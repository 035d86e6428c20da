import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createBidBatch, LocalBidLog, recordsOf } from '../../../opd/state/bid-log.ts'
import { restoreBids, spoolBids } from '../../../opd/state/bid-spool.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { decided } from '../../support/decision-record.ts'
import { newFolder } from '../../support/process.ts'

const hour = 3_600_000
let now = 1_800_000_000_000
let ids = 0

const record = (bidId: string, over: Partial<DecisionRecord> = {}) =>
  decided({
    id: `id-${++ids}`,
    ...{ bidId, decidedAt: now, mode: 'margin', arm: 'shadow', inBa: '1.00', outBa: '1.00' },
    ...{ domain: '', features: new Uint8Array([9]), winIn: 0, winOut: 1 },
    ...over,
  })

t.test('finds the latest decision of each supplier', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  const first = record('b')
  const second = record('b', { priceDsp: '2.6', seat: 'seat-1' })
  const other = record('b', { supplier: 'b-exchange', seat: 'seat-2' })
  for (const entry of [first, record('c'), second, other]) log.put(entry)
  t.same(log.find('b'), [other, second])
  t.same(log.find('nothing'), [])
})

t.test('any text is a bid id', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  const ids = ['', '\0', 'ü'.repeat(300), 'x'.repeat(3_000_000), '💸', `${'y'.repeat(513)}`]
  for (const bidId of ids) log.put(record(bidId))
  for (const bidId of ids) t.equal(log.find(bidId)[0]?.bidId, bidId)
  t.same(log.find('x'.repeat(2_999_999)), [])
})

t.test('a decision is found until its time is over', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  log.put(record('old'))
  now += hour
  t.equal(log.find('old').length, 1)
  now += 1
  t.equal(log.find('old').length, 0)
})

t.test('bounded by count and by bytes, the oldest goes first, and each is counted', async (t) => {
  for (const bound of [{ maxEntries: 20_000 }, { maxBytes: 4 * 1024 * 1024 }]) {
    const log = new LocalBidLog({ ttl: hour, now: () => now, ...bound })
    for (let index = 0; index < 100_000; index++) log.put(record(`bid-${index}`))
    t.ok(log.stats.bytes <= (bound.maxBytes ?? 64 * 1024 * 1024))
    t.ok(log.stats.entries <= (bound.maxEntries ?? 100_000))
    t.equal(log.stats.entries + log.stats.evicted, 100_000)
    t.equal(log.find('bid-99999').length, 1)
    t.equal(log.find('bid-90000').length, 1)
    t.equal(log.find('bid-0').length, 0)
  }
})

t.test('memory of expired decisions is used again', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now, maxEntries: 1_000_000 })
  const before = process.memoryUsage()
  for (let round = 0; round < 10; round++) {
    for (let index = 0; index < 50_000; index++) log.put(record(`r${round}-${index}`))
    now += 2 * hour
  }
  const { arrayBuffers, external } = process.memoryUsage()
  const [taken, counted] = [arrayBuffers - before.arrayBuffers, external - before.external]
  t.ok(Math.abs(taken - log.stats.bytes) < 1024 * 1024, `${taken} bytes in use`)
  t.ok(counted < log.stats.bytes / 2, `the garbage collector counts ${counted} bytes`)
  t.ok(log.stats.expired >= 440_000)
  t.equal(log.stats.evicted, 0)
  t.ok(log.stats.bytes <= 12 * 1024 * 1024)
})

t.test('one bid id for ever is walked no further than a bound', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  for (let index = 0; index < 50_000; index++) log.put(record('same'))
  t.equal(log.find('same').length, 1)
})

t.test('batches of another process are found like own decisions, the latest first', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  const sent: { bytes: Buffer; count: number }[] = []
  const batch = createBidBatch((bytes, count) => sent.push({ bytes: Buffer.from(bytes), count }))
  const ids = ['a', '', 'ü'.repeat(300), 'x'.repeat(3_000_000), '💸']
  const features = new Uint8Array([1, 2, 3])
  const records = ids.map((bidId) => record(bidId, { features, priceDsp: '2.6' }))
  for (const entry of records) t.ok(batch.put(entry))
  batch.flush()
  batch.flush()
  t.same(
    sent.map(({ count }) => count),
    [ids.length],
  )
  log.put(record('a', { decidedAt: now + 1, supplier: 'other' }))
  const later = record('a', { decidedAt: now + 2 })
  log.put(later)
  log.append(sent[0]!.bytes)
  t.same(log.find('a')[0], later, 'a batch that comes late replaces no later decision')
  for (const entry of records.slice(1)) t.same(log.find(entry.bidId), [entry])
  t.equal(log.stats.entries, ids.length + 2)
  const decoded = [...recordsOf(sent[0]!.bytes)]
  t.same(decoded[0], records[0])
  t.equal(decoded.length, ids.length)
})

t.test('a batch is sent when it is full, and slabs take any number of them', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  const batch = createBidBatch((bytes) => log.append(Buffer.from(bytes)))
  const count = 40_000
  for (let n = 0; n < count; n++) batch.put(record(`many ${n}`))
  batch.flush()
  t.equal(log.stats.entries, count)
  for (const n of [0, 1, 2000, count - 1]) t.equal(log.find(`many ${n}`).length, 1, String(n))
})

t.test('a bid log that is written to disk and read again', async (t) => {
  const warnings: object[] = []
  const quiet = { info() {}, error() {}, warn: (fields: object) => void warnings.push(fields) }
  const path = join(newFolder(), 'bid-log')
  const log = new LocalBidLog({ ttl: hour, now: () => now })
  const old = record('old')
  log.put(old)
  now += hour + 1
  const kept = Array.from({ length: 20_000 }, (_, n) => record(`kept ${n}`))
  for (const entry of kept) log.put(entry)
  await spoolBids(path, log, quiet)
  t.equal(statSync(path).mode & 0o777, 0o600)

  const restored = async () => {
    const next = new LocalBidLog({ ttl: hour, now: () => now })
    await restoreBids(path, next, quiet)
    t.notOk(existsSync(path), 'the file is removed')
    return next
  }
  const bytes = readFileSync(path)
  const next = await restored()
  for (const number of [0, 9_999, 19_999]) t.same(next.find(`kept ${number}`), [kept[number]])
  t.same([next.find('old'), next.stats.entries], [[], 20_000], 'expired decisions are left out')
  t.same((await restored()).stats.entries, 0, 'without a file there is nothing to read')
  t.same(warnings, [])

  t.test('a file that cannot be read is logged, and what can be read of it is used', async (t) => {
    const damaged = Buffer.from(bytes)
    damaged[bytes.length - 100]! ^= 1
    for (const [content, most] of [
      ['another program', 0],
      ['', 0],
      [bytes.subarray(0, bytes.length - 5), 19_999],
      [damaged, 19_999],
      [Buffer.concat([bytes.subarray(0, 8), Buffer.alloc(64, 255)]), 0],
    ] as const) {
      writeFileSync(path, content)
      warnings.length = 0
      const { entries } = (await restored()).stats
      t.ok(entries <= most && (most === 0 || entries > 0), `${entries}`)
      t.equal(warnings.length, 1)
    }
    mkdirSync(path)
    warnings.length = 0
    await restored()
    t.equal(warnings.length, 1, 'a folder')
  })

  t.test('a folder that cannot be written is logged', async (t) => {
    warnings.length = 0
    await spoolBids(join(path, 'absent', 'bid-log'), log, quiet)
    t.match(warnings, [{ err: /ENOENT/ }])
  })
})
