import t from 'tap'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import { createBidLog } from '../../opd/state/bid-log.ts'

const hour = 3_600_000
let now = 1_800_000_000_000
let ids = 0

function record(bidId: string, over: Partial<DecisionRecord> = {}): DecisionRecord {
  return {
    id: `id-${++ids}`,
    bidId,
    supplier: 'acme',
    mode: 'margin',
    arm: 'shadow',
    propensity: 1,
    inBa: '1.00',
    outBa: '1.00',
    currency: 'USD',
    at: now,
    modelVersion: 1,
    publisher: 'p',
    domain: '',
    teaches: true,
    features: new Uint8Array([9]),
    winIn: 0,
    winOut: 1,
    ...over,
  }
}

t.test('finds the latest decision of each supplier', async (t) => {
  const log = createBidLog({ ttl: hour, now: () => now })
  const first = record('b')
  const second = record('b', { priceDsp: '2.6', seat: 'seat-1' })
  const other = record('b', { supplier: 'b-exchange', seat: 'seat-2' })
  for (const each of [first, record('c'), second, other]) log.put(each)
  t.same(log.find('b'), [other, second])
  t.same(log.find('nothing'), [])
})

t.test('any text is a bid id', async (t) => {
  const log = createBidLog({ ttl: hour, now: () => now })
  const ids = ['', '\0', 'ü'.repeat(300), 'x'.repeat(3_000_000), '💸', `${'y'.repeat(513)}`]
  for (const bidId of ids) log.put(record(bidId))
  for (const bidId of ids) t.equal(log.find(bidId)[0]?.bidId, bidId)
  t.same(log.find('x'.repeat(2_999_999)), [])
})

t.test('a decision is found until its time is over', async (t) => {
  const log = createBidLog({ ttl: hour, now: () => now })
  log.put(record('old'))
  now += hour
  t.equal(log.find('old').length, 1)
  now += 1
  t.equal(log.find('old').length, 0)
})

t.test('bounded by count and by bytes, the oldest goes first, and each is counted', async (t) => {
  for (const bound of [{ maxEntries: 20_000 }, { maxBytes: 4 * 1024 * 1024 }]) {
    const log = createBidLog({ ttl: hour, now: () => now, ...bound })
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
  const log = createBidLog({ ttl: hour, now: () => now, maxEntries: 1_000_000 })
  for (let round = 0; round < 10; round++) {
    for (let index = 0; index < 10_000; index++) log.put(record(`r${round}-${index}`))
    now += 2 * hour
  }
  t.ok(log.stats.expired >= 80_000)
  t.equal(log.stats.evicted, 0)
  t.ok(log.stats.bytes <= 4 * 1024 * 1024)
})

t.test('one bid id for ever is walked no further than a bound', async (t) => {
  const log = createBidLog({ ttl: hour, now: () => now })
  for (let index = 0; index < 50_000; index++) log.put(record('same'))
  t.equal(log.find('same').length, 1)
})
