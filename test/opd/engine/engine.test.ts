import t from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { auction, hour, keys, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const explained = (
  { explain }: ReturnType<typeof testEngine>['engine'],
  { svcOpd }: { svcOpd: string },
  id: string,
) => explain(svcOpd, id).record as DecisionRecord

t.test('the arm of a bid, its price, and whether the model learns from it', async (t) => {
  const rows: [string, Parameters<typeof integration>[1], object, string, number, boolean][] = [
    ['treated', {}, {}, 'treated', 0.9, true],
    ['the floor decides', {}, { floor: 0.95 }, 'treated', 0.95, true],
    ['at the floor', {}, { floor: 1 }, 'floor', 1, false],
    ['below the floor', {}, { floor: 2 }, 'below_floor', 1, false],
    ['test', {}, { test: true }, 'test', 1, false],
    ['no rate', {}, { cur: 'JPY' }, 'no_rate', 1, false],
    ['a rate', {}, { cur: 'EUR' }, 'treated', 0.9, true],
    ['shadow', { enabled: 'shadow' }, {}, 'shadow', 1, true],
    ['outside', { share: 0 }, {}, 'outside', 1, true],
    ['test wins over shadow', { enabled: 'shadow' }, { test: true }, 'test', 1, false],
    ['shadow wins over outside', { enabled: 'shadow', share: 0 }, {}, 'shadow', 1, true],
    ['minFactor', { minFactor: 0.95 }, {}, 'treated', 0.95, true],
    ['fee', { clientFee: 0.1 }, {}, 'treated', 0.81, true],
    ['fee, shadow', { clientFee: 0.1, enabled: 'shadow' }, {}, 'shadow', 1, true],
    ['fee, at the floor', { clientFee: 0.1 }, { floor: 0.95 }, 'floor', 1, false],
    ['fee, above the floor before it', { clientFee: 0.1 }, { floor: 0.99 }, 'floor', 1, false],
    ['fee, below the floor', { clientFee: 0.1 }, { floor: 1.01 }, 'below_floor', 1, false],
    ['below a floor of many digits', {}, { floor: 1.0000000001 }, 'below_floor', 1, false],
    ['fee, floor decides', { clientFee: 0.1 }, { floor: 0.85 }, 'treated', 0.85, true],
  ]
  for (const [name, opd, asked, arm, price, trains] of rows) {
    const { engine } = testEngine({ integrations: [integration('acme', opd)] })
    const answer = auction(engine, { id: name, ...asked })
    const record = explained(engine, answer, name)
    t.match(record, { arm, trains, supplier: 'acme', publisher: 'pub-1' }, name)
    t.equal(answer.price, price, name)
    t.equal(Number(answer.out), price, name)
    t.equal(answer.out, record.outBa, name)
    t.equal(answer.in, record.inBa, name)
  }
})

t.test('a holdout is left at in_ba', async (t) => {
  for (const [fee, price] of [
    [0, 1],
    [0.1, 0.9],
  ] as const) {
    const { engine, learner } = testEngine({
      integrations: [integration('acme', { clientFee: fee })],
    })
    learner.arm = 'holdout'
    const answer = auction(engine, { id: 'b' })
    t.equal(answer.price, price)
    t.match(explained(engine, answer, 'b'), { arm: 'holdout', trains: true })
    t.same(learner.exposed, [price])
  }
})

t.test('what is exposed is the price really sent, in the base currency', async (t) => {
  const { engine, learner } = testEngine({ integrations: [integration('acme')] })
  auction(engine, { id: 'a', cur: 'EUR', price: '0.8' })
  t.same(learner.exposed, [0.72 / 0.8])
  const shadow = testEngine({ integrations: [integration('acme', { enabled: 'shadow' })] })
  auction(shadow.engine, { id: 'a' })
  t.same(shadow.learner.exposed, [1])
})

t.test('rates with another base are converted on every path', async (t) => {
  const { config, engine, learner } = testEngine({ integrations: [integration('acme')] })
  engine.configure({ ...config, rates: { base: 'EUR', rates: { USD: 1.25, GBP: 0.875 } } })
  for (const [currency, rate] of [
    ['USD', 1],
    ['EUR', 0.8],
    ['GBP', 0.7],
    ['JPY', null],
    ['constructor', null],
  ] as const)
    t.equal(engine.rate(currency), rate, currency)
  const { svcOpd } = auction(engine, { id: 'a', cur: 'GBP', price: '1.4' })
  t.same(learner.exposed, [1.26 / 0.7])
  engine.learnWin(engine.explain(svcOpd, 'a').record!, 1.05, false)
  t.match(learner.updates, [{ kind: 'win', cleared: 1.05 / 0.7 }])
})

t.test('a hold of one or of all integrations is factor 1 at once', async (t) => {
  const { engine } = testEngine({ integrations: [integration('acme'), integration('other')] })
  const prices = () => [
    auction(engine, { id: 'a' }).price,
    auction(engine, { id: 'a', supplier: 'other' }).price,
  ]
  t.same(prices(), [0.9, 0.9])
  engine.setHolds(new Set(['other']))
  t.same(prices(), [0.9, 1])
  engine.setHolds(new Set(['*']))
  t.same(prices(), [1, 1])
  engine.setHolds(new Set())
  t.same(prices(), [0.9, 0.9])
})

t.test(
  'an integration whose money cannot be checked sends no lower price, and still trains',
  async (t) => {
    const { engine, learner } = testEngine({ integrations: [integration('acme')] })
    engine.setUnchecked(new Set(['acme']))
    const answer = auction(engine, { id: 'a' })
    t.equal(answer.price, 1)
    t.match(explained(engine, answer, 'a'), { arm: 'unchecked', trains: true })
    t.same(learner.exposed, [1])
    engine.setUnchecked(new Set())
    t.equal(auction(engine, { id: 'b' }).price, 0.9)
  },
)

t.test('one auction is wholly outside of the share or not, on every node', async (t) => {
  const world = testEngine({ integrations: [integration('acme', { share: 0.3 })] })
  const other = world.node()
  let outside = 0
  for (let index = 0; index < 2000; index++) {
    const asked = { id: `b${index}`, auction: `auction-${index}` }
    const first = auction(world.engine, asked).price
    if (auction(other, { ...asked, id: 'x' }).price !== first) t.fail(asked.auction)
    if (first === 1) outside++
  }
  t.ok(Math.abs(outside / 2000 - 0.7) < 0.04, `${outside} of 2000`)
})

t.test('a model that fails costs no bid', async (t) => {
  const { engine, learner } = testEngine({ integrations: [integration('acme')] })
  learner.fails = true
  const answer = auction(engine, { id: 'a' })
  t.equal(answer.price, 1)
  t.match(explained(engine, answer, 'a'), { arm: 'hold', trains: false })
  learner.fails = false
  for (const factor of [Number.NaN, 0, -1, 2, Number.POSITIVE_INFINITY]) {
    learner.factor = factor
    t.equal(auction(engine, { id: 'a' }).price, 1, String(factor))
  }
  t.equal(engine.stats.supplierStats('acme').modes.revenue.learnerErrors, 6)
})

t.test('absurd prices spoil no sum', async (t) => {
  const { engine } = testEngine({ integrations: [integration('acme')] })
  for (const price of ['1e308', '1e308', '9e-320', '0.000001']) auction(engine, { id: 'a', price })
  const stats = engine.stats.supplierStats('acme').modes.revenue
  t.ok(Number.isFinite(stats.inSum) && Number.isFinite(stats.factors.sum))
  t.equal(stats.learnerErrors, 0)
})

t.test('a reload keeps counters and contexts; what is off is counted', async (t) => {
  const { engine, config } = testEngine({ integrations: [integration('acme')] })
  const responses = engine.responsesOf('acme')
  t.equal(responses.reads, true)
  const before = auction(engine, { id: 'a' })
  const seat = { request: () => null, inactiveSeats: new Set<string>() }
  const body = Buffer.from('{"seatbid":[]}')
  const next = { id: 2, secret: Buffer.alloc(32, 9) }
  engine.configure({ ...config, keys: [next, ...keys] })
  engine.removeIntegration('acme')
  t.match(explained(engine, before, 'a'), { supplier: 'acme' })
  t.equal(responses.reads, false)
  t.match(drained(responses.rewriteInSlices({ ...seat, body })), { reason: 'disabled', body })
  t.equal(engine.stats.supplierStats('acme').modes.revenue.sums('treated').bids, 1)
  for (const [opd, reason] of [
    [null, 'disabled'],
    ['invalid', 'invalid_config'],
  ] as const) {
    engine.setIntegration({ id: 'acme', opd, notices: 'win' })
    t.equal(drained(responses.rewriteInSlices({ ...seat, body })).reason, reason)
    t.same(engine.priceStandalone('acme', body), { ok: false, status: 403, faults: [] })
  }
  t.same(engine.priceStandalone('nobody', body), { ok: false, status: 404, faults: [] })
  t.same([...engine.stats.supplierStats('acme').responses], [0, 1, 1, 0, 0, 0, 0, 0, 0, 0])
})

t.test('a notice is traced by context, memory, then what all nodes share', async (t) => {
  const kept: DecisionRecord[] = []
  let down = false
  const shared = {
    put: (record: DecisionRecord) => void kept.push(record),
    find: async (bidId: string) => {
      if (down) throw new Error('no Redis')
      return kept.filter((record) => record.bidId === bidId)
    },
    written: async () => {},
  }
  const world = testEngine({ integrations: [integration('acme')], shared })
  const other = world.node()
  auction(world.engine, { id: 'a' })
  const notice = { bidId: 'a', svcOpd: undefined, ssp: undefined }
  t.match(await other.findDecision(notice), { by: 'bid_log', record: { bidId: 'a' }, late: false })
  t.match(await other.findDecision({ ...notice, ssp: 'other' }), { by: null, record: null })
  world.clock.now += 1
  const again = auction(other, { id: 'a' })
  const latest = other.explain(again.svcOpd, 'a').record!.id
  for (const node of [world.engine, other, world.node()])
    t.match(await node.findDecision(notice), { record: { id: latest } }, 'the latest of any node')
  world.clock.now += hour
  t.match(await other.findDecision(notice), { by: 'bid_log', late: true })
  world.clock.now += 48 * hour
  t.match(await other.findDecision(notice), { by: null, record: null })
  down = true
  t.match(await other.findDecision(notice), { by: null, record: null })
})

t.test('a new notice waits for bids of other nodes that are still being written', async (t) => {
  const buffer: DecisionRecord[] = []
  const kept: DecisionRecord[] = []
  const shared = {
    put: (record: DecisionRecord) => void buffer.push(record),
    find: async (bidId: string) => kept.filter((record) => record.bidId === bidId),
    written: async () => void kept.push(...buffer.splice(0)),
  }
  const world = testEngine({ integrations: [integration('acme')], shared })
  const other = world.node()
  auction(world.engine, { id: 'a' })
  const notice = { bidId: 'a', svcOpd: undefined, ssp: undefined }
  const earlier = { ...notice, receivedAt: world.clock.now }
  t.match(await other.findDecision(earlier), { by: null }, 'one that arrived before does not wait')
  t.match(await other.findDecision(notice, () => false), { by: null }, 'nor one that may not look')
  t.match(await other.findDecision(notice), { by: 'bid_log', record: { bidId: 'a' } })
})

t.test(
  'with names that are too long for a context, the model learns through the bid log',
  async (t) => {
    const supplier = 's'.repeat(63)
    const world = testEngine({ integrations: [integration(supplier)] })
    world.learner.expose = () => new Uint8Array(300).fill(5)
    const { svcOpd } = auction(world.engine, { id: 'a', supplier })
    t.ok(svcOpd.length <= 512)
    t.equal(world.engine.stats.supplierStats(supplier).modes.revenue.contextsCut, 1)
    const notice = { bidId: 'a', svcOpd, ssp: undefined }
    const traced = await world.engine.findDecision(notice)
    t.equal(traced.record?.features.length, 300)
    const elsewhere = await world.node().findDecision(notice)
    t.match(elsewhere, { by: 'context', record: { trains: false } })
  },
)
