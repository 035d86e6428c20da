/** Exceptions of the engine and its dependencies: counted, logged without data, and no bid is lost to them. */

import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { standalone } from '../../../admin/prices/standalone.ts'
import { drained } from '../../../opd/base/slices.ts'
import type { DecisionSink, SharedBidLog } from '../../../opd/ports.ts'
import { auction, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const secret = 'user-4711@198.51.100.7'
const thrower = (): never => {
  throw new RangeError(`quotes ${secret}\n    at leak (/${secret}:1:1)`)
}

interface Dependencies {
  shared?: SharedBidLog
  sink?: DecisionSink
}

function world(dependencies: Dependencies = {}, integrations = [integration('acme')]) {
  const lines: Record<string, unknown>[] = []
  const log = {
    info() {},
    warn() {},
    error: (fields: object, message: string) => void lines.push({ ...fields, message }),
  }
  const made = testEngine({ integrations, log, ...dependencies })
  return { ...made, lines }
}

function silentOn(t: Test, lines: object[]) {
  t.notMatch(JSON.stringify(lines), /4711|198\.51|quotes/, 'no data of a bid')
}

t.test('a learner that throws: one line at once, then one a minute with a count', async (t) => {
  const { engine, learner, lines, clock } = world()
  learner.decide = thrower
  for (let n = 0; n < 5; n++) t.equal(auction(engine, { id: `b${n}` }).price, 1)
  t.match(lines, [{ place: 'learner', ssp: 'acme', error: 'RangeError', notLogged: 0 }])
  t.match(lines[0]!['request'], /^.{1,64}$/, 'the id of the bid request')
  t.equal(lines.length, 1)
  t.match((lines[0]!['at'] as string[])[0], /faults\.test\.ts:\d+:\d+/, 'the place in the code')
  clock.now += 59_999
  auction(engine, { id: 'within the minute' })
  t.equal(lines.length, 1)
  clock.now += 1
  auction(engine, { id: 'after it' })
  t.match(lines[1], { place: 'learner', notLogged: 5 })
  t.equal(lines.length, 2)
  clock.now -= 3_600_000
  auction(engine, { id: 'the clock was set back' })
  t.match(lines[2], { place: 'learner', notLogged: 0 })
  t.equal(engine.stats.faults.learner, 8)
  silentOn(t, lines)
})

t.test('a fault is logged whatever was thrown', async (t) => {
  const odd = Object.assign(new Error(secret), { stack: 4, message: { secret }, constructor: null })
  for (const thrown of [null, undefined, secret, { secret }, odd]) {
    const { engine, learner, lines } = world()
    learner.decide = () => {
      throw thrown
    }
    t.equal(auction(engine, { id: 'a' }).price, 1)
    t.match(lines, [{ place: 'learner', notLogged: 0 }])
    silentOn(t, lines)
  }
})

t.test('a fault of one place does not suppress the log of another', async (t) => {
  const { engine, learner, lines } = world({
    sink: { writeDecision: thrower, writeWin: thrower, writeWithdrawal: thrower },
    shared: { put: thrower, find: thrower, written: async () => {} },
  })
  const won = auction(engine, { id: 'a' })
  t.equal(won.price, 0.9, 'logs that fail cost no optimisation')
  const notice = { bidId: 'elsewhere', svcOpd: undefined, ssp: undefined }
  t.match(await engine.findDecision(notice), { by: null, record: null })
  const traced = await engine.findDecision({ bidId: 'a', svcOpd: won.svcOpd, ssp: undefined })
  t.match(traced, { by: 'context' })
  learner.win = thrower
  learner.withdraw = thrower
  engine.learnWin(traced.record!, 0.8, false)
  engine.withdrawExposure(traced.record!)
  learner.expose = thrower
  t.equal(auction(engine, { id: 'b' }).price, 0.9)
  t.same(
    lines.map(({ place }) => place),
    ['bid_log', 'decision_log', 'shared_bid_log', 'training', 'learner'],
  )
  t.match(engine.stats.faults, { bid_log: 2, decision_log: 4, shared_bid_log: 1, training: 2 })
  silentOn(t, lines)
})

t.test('pricing that throws: the bid keeps its price', async (t) => {
  const { engine, lines, learner } = world()
  learner.expose = () => Object.defineProperty(new Uint8Array(1), 'length', { get: thrower })
  const { price, svcOpd } = auction(engine, { id: 'a' })
  t.equal(price, 1)
  t.equal(svcOpd, '')
  t.match(lines, [{ place: 'pricing', ssp: 'acme' }])
  silentOn(t, lines)
})

t.test('rewriting that throws: the answer goes out as it came', async (t) => {
  const { engine, lines } = world()
  const body = Buffer.from(
    '{"seatbid":[{"bid":[{"id":"a","price":1,"adm":"svc_opd=${SVC_OPD_CONTEXT}"}]}]}',
  )
  const asked = { body, request: thrower, inactiveSeats: new Set<string>() }
  t.equal(drained(engine.responsesOf('acme').rewriteInSlices(asked)).body, body)
  t.match(lines, [{ place: 'rewrite', ssp: 'acme' }])
  t.equal(engine.stats.supplierStats('acme').faults, 1)
  silentOn(t, lines)
})

t.test('a standalone call that throws is a 500 without data', async (t) => {
  // Exclusions that throw represent any bug in the code that a bid passes.
  const broken = integration('acme')
  Object.defineProperty(broken.opd, 'exclude', { get: thrower })
  const { engine, lines } = world({}, [broken])
  const app = Fastify()
  await app.register(
    standalone({ engine, authenticate: () => async () => {}, account: () => undefined }),
  )
  t.teardown(() => app.close())
  const url = await app.listen({ port: 0 })
  const answer = await fetch(`${url}/opd/acme_yesbid`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"seatbid":[{"bid":[{"id":"a","price":1}]}]}',
  })
  t.equal(answer.status, 500)
  t.notMatch(await answer.text(), /4711|quotes/)
  t.match(lines, [{ place: 'standalone', ssp: 'acme' }])
  silentOn(t, lines)
})
