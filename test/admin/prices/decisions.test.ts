/** `GET /api/svc/decisions/<svc_opd>?bid_id=`: everything that a context says about a price, and nothing else. */

import t, { type Test } from 'tap'
import { createAdmin } from '../../../admin/http/server.ts'
import { decisions } from '../../../admin/prices/decisions.ts'
import { createContextCodec, Nonces } from '../../../opd/pricing/context.ts'
import type { Guard } from '../../../opd/shared/arms.ts'
import { decided } from '../../support/decision-record.ts'
import { auction, hour, keys, noLog, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

async function api(t: Test) {
  const world = { ...testEngine({ integrations: [integration('acme')] }), guard: 'none' as Guard }
  const decide = world.learner.decide
  world.learner.decide = (...asked) => ({
    ...decide(...asked),
    theta: 1.234567,
    lambda: 0.05,
    guard: world.guard,
  })
  const plugin = decisions({
    engine: world.engine,
    authenticate: () => async () => {},
    account: () => undefined,
  })
  const admin = createAdmin({ listen: '127.0.0.1:0', log: noLog, plugins: [plugin] })
  const { port } = await admin.listen()
  t.teardown(() => admin.close())
  async function ask(svcOpd: string, bidId: string) {
    const answer = await fetch(
      `http://127.0.0.1:${port}/api/svc/decisions/${svcOpd}?bid_id=${encodeURIComponent(bidId)}`,
    )
    const type = answer.headers.get('content-type')
    const body = (await answer.json()) as Record<string, unknown>
    return { status: answer.status, type, body }
  }
  return Object.assign(world, { ask })
}

t.test('a decision says its theta, floor, chances, version and reason', async (t) => {
  const { engine, ask } = await api(t)
  const { svcOpd } = auction(engine, { id: 'b1', price: '2.00', floor: 0.85 })
  const { status, body } = await ask(svcOpd, 'b1')
  t.equal(status, 200)
  t.match(body, {
    ssp: 'acme',
    mode: 'revenue',
    context: 'valid',
    late: false,
    arm: 'treated',
    reason: 'priced by the model',
    in_ba: '2.00',
    out_ba: '1.8',
    floor: 0.85,
    factor: 0.9,
    propensity: 0.5,
    win_in: 0.4,
    win_out: 0.25,
    theta: 1.234567,
    lambda: 0.05,
    guard: 'none',
    model_version: 7,
    publisher: 'pub-1',
    domain: 'news.example',
  })
})

t.test(
  'a figure that the model was not asked for is null; a hold and a model without an answer differ',
  async (t) => {
    const { engine, learner, ask } = await api(t)
    const test = auction(engine, { id: 'b1', test: true })
    t.match((await ask(test.svcOpd, 'b1')).body, { theta: null, win_in: null, win_out: null })
    engine.setHolds(new Set(['acme']))
    const held = auction(engine, { id: 'b2' })
    t.match((await ask(held.svcOpd, 'b2')).body, {
      arm: 'hold',
      reason: /operator/,
      theta: 1.234567,
    })
    engine.setHolds(new Set())
    learner.fails = true
    const failed = auction(engine, { id: 'b3' })
    t.match((await ask(failed.svcOpd, 'b3')).body, {
      arm: 'hold',
      reason: /no decision/,
      theta: null,
    })
  },
)

t.test('a guard that holds prices up is the reason', async (t) => {
  const world = await api(t)
  for (const [guard, reason] of [
    ['start', /small reductions at first/],
    ['silence', /notices have stopped/],
    ['kept', /too few wins are kept/],
  ] as const) {
    world.guard = guard
    const { svcOpd } = auction(world.engine, { id: guard })
    t.match((await world.ask(svcOpd, guard)).body, { guard, reason })
  }
})

t.test('a late decision says so; expired and forged contexts are problem documents', async (t) => {
  const { engine, clock, ask } = await api(t)
  const { svcOpd } = auction(engine, { id: 'b1' })
  clock.now += hour
  t.match((await ask(svcOpd, 'b1')).body, { late: true, context: 'valid' })
  clock.now += 48 * hour
  const expired = await ask(svcOpd, 'b1')
  t.match(expired, { status: 410, type: /problem\+json/, body: { status: 410 } })
  t.match(await ask('forged', 'b1'), { status: 404, type: /problem\+json/ })
  t.match(await ask(svcOpd, 'another'), { status: 404, type: /problem\+json/ })
})

t.test('the longest names leave 512 characters whole, without what only explains', async (t) => {
  const codec = createContextCodec(keys, hour, new Nonces())
  const record = decided({
    id: codec.nextId(),
    supplier: 's'.repeat(63),
    mode: 'margin',
    inBa: `0.${'1'.repeat(38)}`,
    outBa: `0.${'1'.repeat(38)}`,
    currency: 'XXXXXXXXXXXXXXXX',
    decidedAt: 1,
    publisher: 'p'.repeat(64),
    domain: 'd'.repeat(96),
    features: new Uint8Array(86),
    ...{ theta: 2.5, floor: 0.1, lambda: 0.2, guard: 'drop' },
  })
  const { text, withFeatures } = codec.encode(record)
  t.ok(text.length <= 512, `${text.length}`)
  t.equal(withFeatures, false)
  const { record: read } = codec.decode(text, 'b', 1)
  t.match(read, { domain: record.domain, inBa: record.inBa, supplier: record.supplier })
  t.equal(read?.theta, undefined)
  const short = { ...record, id: codec.nextId(), publisher: 'p', inBa: '1', outBa: '0.9' }
  t.match(codec.decode(codec.encode(short).text, 'b', 1).record, {
    theta: 2.5,
    floor: 0.1,
    lambda: 0.2,
    guard: 'drop',
  })
})
