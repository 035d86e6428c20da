import { createHash } from 'node:crypto'
import t from 'tap'
import type { DecisionEntry } from '../../../opd/ports.ts'
import { createContextCodec, Nonces } from '../../../opd/pricing/context.ts'
import { Combinations } from '../../../opd/pricing/facets.ts'
import { Pricing, SharedTerms } from '../../../opd/pricing/pricing.ts'
import { ModeStats } from '../../../opd/pricing/stats.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import { type AskedBid, auction, keys, testEngine } from '../../support/engine.ts'
import { bid, fixedLearner, integration } from '../../support/opd-doubles.ts'

t.test(
  'one line for each win, also without a rate and where the model may not learn from it; none for a test',
  async (t) => {
    const lines: object[] = []
    const sink = {
      writeDecision: () => {},
      writeWin: (line: object) => void lines.push(line),
      writeWithdrawal: (line: object) => void lines.push({ ...line, withdrawn: true }),
    }
    const { engine } = testEngine({ integrations: [integration('acme')], sink })
    const won = async (asked: AskedBid, trains = true) => {
      const { svcOpd } = auction(engine, asked)
      const { record } = await engine.findDecision({ bidId: asked.id, svcOpd, ssp: undefined })
      if (trains) engine.learnWin(record!, 0.8, false)
      else engine.withdrawExposure(record!)
      return lines.splice(0)
    }
    t.match(await won({ id: 'a' }), [{ ssp: 'acme', cleared: 0.8, late: false }])
    t.match(await won({ id: 'b', cur: 'EUR' }), [{ cleared: 1 }], 'in the base currency')
    t.match(await won({ id: 'c', cur: 'XXX' }), [{ cleared: 0.8 }], 'in its own')
    t.match(await won({ id: 'd', price: '1', floor: 2 }), [{ cleared: 0.8 }], 'at the floor')
    t.match(await won({ id: 'e' }, false), [{ withdrawn: true }])
    t.same(await won({ id: 'f', test: true }), [])
  },
)

t.test('the decision log knows no name, and a test is not in it', async (t) => {
  const entries: DecisionEntry[] = []
  const now = () => 1_800_000_000_000
  const deps = {
    learners: { learnerOf: () => fixedLearner(0.9), version: () => 3, epoch: () => 0 },
    bidLog: new LocalBidLog({ ttl: 1000, now }),
    observer: null,
    shared: null,
    sink: {
      writeDecision: (entry: DecisionEntry) => void entries.push(entry),
      writeWin: () => {},
      writeWithdrawal: () => {},
    },
    now,
    random: () => 0,
    codec: createContextCodec(keys, 1000, new Nonces()),
    exposures: { takes: () => true },
    terms: new SharedTerms(),
    combinations: new Combinations(),
    seed: 1,
    auctionSalt: 'salt',
    onHold: () => false,
    isUnchecked: () => false,
    reductions: { amountOf: () => 0 },
    fault() {},
  }
  const { price } = new Pricing(integration('acme'), deps, new ModeStats())
  price(
    bid({
      auction: 'r'.repeat(100),
      floor: 0.4,
      rate: 2,
      features: { publisher: 'pub-1', country: 'DEU' },
    }),
  )
  price(bid({ test: true }))
  const publisher = createHash('sha256').update('pub-1').digest('hex').slice(0, 16)
  t.equal(entries.length, 1)
  t.match(entries[0], {
    request: 'r'.repeat(64),
    ssp: 'acme',
    arm: 'treated',
    in: 0.5,
    floor: 0.2,
    out: 0.45,
    low: 0.7,
    guard: null,
    lambda: null,
    theta: null,
    density: null,
    propensity: 0.5,
    winIn: 0.4,
    winOut: 0.25,
    model: 3,
    publisher,
    domain: null,
    features: { country: 'DEU' },
  })
  t.notOk(JSON.stringify(entries).includes('pub-1'))
})
