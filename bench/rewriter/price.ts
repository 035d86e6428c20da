/** What a bid costs beside its bytes: contexts, the bid log, and the whole price function. */
import { opdSchema } from '../../opd/config.ts'
import { ModeStats } from '../../opd/engine/stats.ts'
import type { DecisionRecord } from '../../opd/engine/types.ts'
import { type BidFacts, createLearner, type Decision, type Learner } from '../../opd/learner.ts'
import { createContextCodec, Nonces } from '../../opd/pricing/context.ts'
import { createPricing } from '../../opd/pricing/pricing.ts'
import type { EligibleBid } from '../../opd/pricing/types.ts'
import { createBidLog } from '../../opd/state/bid-log.ts'
import type { Run } from '../harness/bench.ts'
import { cpuOf } from '../harness/process.ts'
import type { Block } from '../harness/report.ts'
import { inTurns, median } from '../harness/statistics.ts'

const hour = 3_600_000
const now = () => 1_800_000_000_000

const codec = createContextCodec([{ id: 1, secret: Buffer.alloc(32, 7) }], 48 * hour, new Nonces())
const bidLog = createBidLog({ ttl: 48 * hour, now, maxBytes: 32 * 1024 * 1024 })
const features = new Uint8Array(88).fill(3)

/** A learner that costs nothing. */
const idle: Learner = Object.assign(createLearner({}), {
  decide: ({ inBa }: BidFacts): Decision => ({
    ...{ outBa: inBa * 0.9, factor: 0.9, arm: 'treated', propensity: 0.97 },
    ...{ winIn: 0.4, winOut: 0.3 },
  }),
  expose: () => features,
})

const integration = {
  id: 'acme',
  opd: opdSchema.parse({ enabled: true }),
  notices: 'win' as const,
}

function priceWith(learner: Learner) {
  return createPricing(
    integration,
    {
      learners: { of: () => learner, version: () => 1 },
      bidLog,
      observer: null,
      shared: null,
      sink: null,
      now,
      random: Math.random,
      codec,
      exposures: { takes: () => true },
      seed: 1,
      auctionSalt: 'salt',
      onHold: () => false,
      reductions: { of: () => 0 },
      fault() {},
    },
    new ModeStats(),
  )
}

let serial = 0
function nextBid(): EligibleBid {
  serial++
  return {
    bidId: `5f1c7a2e-8a0b-4d53-9d2c-${serial}`,
    auction: `a-${serial}`,
    priceText: '2.15',
    price: 2.15,
    currency: 'USD',
    floor: 0.5,
    floorText: '0.5',
    rate: 1,
    test: false,
    features: {
      publisher: `pub-${serial % 300}`,
      domain: 'news.example',
      placement: 'top',
      country: 'DEU',
      device: '4',
      format: 'banner',
      size: '300x250',
      seat: 's1',
    },
  }
}

const record = (): DecisionRecord => ({
  id: codec.nextId(),
  bidId: '5f1c7a2e-8a0b-4d53-9d2c-0a7cbb1e5f11',
  supplier: 'acme',
  mode: 'revenue',
  arm: 'treated',
  propensity: 0.97,
  inBa: '2.15',
  outBa: '1.935',
  currency: 'USD',
  at: now(),
  modelVersion: 1,
  publisher: 'pub-17',
  domain: 'news.example',
  teaches: true,
  features,
  winIn: 0.4,
  winOut: 0.3,
})

const one = record()
const { text } = codec.encode(one)
const priceIdle = priceWith(idle)
const learner = createLearner({})
const priceLearning = priceWith(learner)

const subjects: Readonly<Record<string, () => unknown>> = {
  'context, encode': () => codec.encode(one),
  'context, decode': () => codec.decode(text, one.bidId, now()),
  'bid log, put': () => bidLog.put(one),
  'price, without the learner': () => priceIdle(nextBid()),
  'price, with the learner': () => priceLearning(nextBid()),
}

export async function priceCosts({ quick }: Run): Promise<Block[]> {
  const [rounds, calls] = quick ? [3, 2000] : [9, 20_000]
  const costs = await inTurns(rounds, Object.keys(subjects), (name) =>
    cpuOf(subjects[name]!, calls),
  )
  return [
    `CPU microseconds a call, median of ${rounds} interleaved rounds. A context has ${text.length} characters.`,
    {
      head: ['what', 'us'],
      rows: [...costs].map(([name, taken]) => [name, median(taken).toFixed(2)]),
    },
  ]
}
