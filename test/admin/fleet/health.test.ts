/** The state of an integration at a glance. */
import t from 'tap'
import { added, latencyOf, type SupplierFigures } from '../../../admin/fleet/figures.ts'
import {
  type HealthContext,
  healthOf,
  keptLevel,
  requestCounts,
} from '../../../admin/fleet/health.ts'

const figures = (over: Partial<SupplierFigures> = {}): SupplierFigures => ({
  requests: {},
  durations: {},
  funnel: { decided: 0, noMacro: 0, left: 0, notices: {}, cleared: 0, clearedLow: 0 },
  awaited: 0,
  rate: 0,
  modes: {},
  left: {},
  notices: {},
  endpoints: [],
  qps: null,
  ...over,
})
const context: HealthContext = {
  opd: 'on',
  held: false,
  unchecked: false,
  kept: 'none',
  keptSpend: 'none',
  inactive: [],
  noticed: true,
}
const level = (requests: Record<string, number>, over: Partial<HealthContext> = {}) =>
  healthOf(figures({ requests }), { ...context, ...over }).level

t.test('the level of requests', async (t) => {
  t.equal(healthOf(undefined, context).level, 'none')
  t.equal(level({}), 'none', 'without requests nothing is known')
  t.equal(level({ answer: 90, no_bid: 10 }), 'ok')
  const { funnel } = figures()
  const byCalls = figures({ funnel: { ...funnel, decided: 3 } })
  t.strictSame(healthOf(byCalls, context), { level: 'ok', reasons: [] }, 'bids of calls only')
  const unpriced = figures({ funnel: { ...funnel, left: 3 } })
  t.equal(healthOf(unpriced, context).level, 'ok', 'also if none of them could be priced')
  t.equal(level({ answer: 97, timeout: 3 }), 'warn')
  t.equal(level({ answer: 75, timeout: 20, upstream_error: 5 }), 'bad')
  const dead = healthOf(figures({ requests: { upstream_error: 4 } }), context)
  t.equal(dead.level, 'bad')
  t.match(dead.reasons, [{ text: 'no request was answered in the last minutes' }])
  const expired = figures({
    requests: { upstream_error: 4 },
    endpoints: [{ url: 'u', state: 'failing', failures: 4, reason: 'certificate has expired' }],
  })
  t.match(healthOf(expired, context).reasons, [{ text: /in the last minutes: certificate has ex/ }])
  t.equal(level({ overload: 10, answer: 90 }), 'warn')
  t.equal(level({ qps: 100 }), 'warn', 'refused by us: the supplier is not at fault')
  t.equal(level({ answer: 1 }, { opd: 'invalid' }), 'bad')
  t.equal(level({ answer: 1 }, { held: true }), 'warn')
})

t.test('kept rates against their floor', async (t) => {
  const interval = (lower: number, center: number, upper: number) => ({ lower, at: center, upper })
  t.equal(keptLevel(interval(0.9, 0.98, 1.1), 0.97), 'ok')
  t.equal(keptLevel(interval(0.9, 0.93, 1), 0.97), 'warn', 'it is probably below')
  t.equal(keptLevel(interval(0.93, 0.965, 1), 0.97), 'ok', 'an estimate that wavers around it')
  t.equal(keptLevel(interval(0.2, 0.5, 1.3), 0.97), 'none', 'an interval that says nothing')
  t.equal(keptLevel(interval(0.9, 0.93, 0.96), 0.97), 'bad', 'it is surely below')
  t.equal(keptLevel(null, 0.97), 'none')
  t.equal(level({ answer: 5 }, { keptSpend: 'bad' }), 'bad')
})

t.test('the data center is inactive only while it is', async (t) => {
  const requests = { inactive: 50, answer: 50 }
  const off = healthOf(figures({ requests }), { ...context, inactive: ['us-east'] })
  t.match(off, { level: 'warn', reasons: [{ text: 'the data center us-east is inactive' }] })
  t.equal(level(requests), 'ok', 'its refusals of the last minutes are no fault any more')
})

t.test('failed requests are a share of those that were sent, refused ones of all', async (t) => {
  const requests = { answer: 60, no_bid: 30, timeout: 6, upstream_error: 4, overload: 90, qps: 10 }
  t.same(requestCounts({ ...requests, client_abort: 5 }), {
    ...{ total: 205, sent: 100, failed: 10, refused: 100 },
  })
  const [share] = healthOf(figures({ requests }), context).reasons
  t.equal(share?.text, '10% of the requests sent to the supplier failed')
})

t.test(
  'OPD that earns nothing, or whose wins are implausible, is a warning with its fix',
  async (t) => {
    const requests = { answer: 500 }
    const sound = { decided: 400, noMacro: 100, notices: { attributed: 95, duplicate: 5 } }
    const healthWith = (over: object, more: Partial<HealthContext> = {}, awaited = 400) => {
      const funnel = { left: 0, cleared: 95, clearedLow: 10, ...sound, ...over }
      const { level, reasons } = healthOf(figures({ requests, funnel, awaited }), {
        ...{ ...context, ...more },
      })
      t.equal(level, reasons.length === 0 ? 'ok' : 'warn')
      for (const { fix } of reasons) t.ok(fix !== null && fix.length > 20)
      return reasons.map(({ text }) => text)
    }
    t.same(healthWith({}), [])
    t.match(healthWith({ decided: 5, noMacro: 495 }), ['only 1.0% of the bids contain the macro'])
    t.same(healthWith({ decided: 1, noMacro: 5 }), [], 'too few bids to say')
    t.match(healthWith({}, { noticed: false }), ['no win notice has come for 400 decided bids'])
    t.same(healthWith({}, { noticed: false }, 199), [], 'too few bids to say')
    t.same(healthWith({}, { noticed: null }), [], 'one node alone cannot know')
    const rejected = { notices: { attributed: 80, rejected: 20 } }
    t.match(healthWith(rejected), ['20% of the win notices are refused'])
    const unattributed = { notices: { attributed: 80, unattributed: 20 } }
    t.match(healthWith(unattributed), ['20% of the win notices belong to no known decision'])
    t.match(healthWith({ clearedLow: 60 }), [
      '63% of the wins cleared below half of the price sent',
    ])
    t.same(healthWith({ decided: 0, noMacro: 500 }, { opd: 'off' }), [], 'OPD is off')
  },
)

t.test('faults come before warnings, and what costs money before what slows', async (t) => {
  const all = figures({
    requests: { answer: 60, timeout: 40, overload: 10, qps: 10, inactive: 10 },
    funnel: {
      ...{ decided: 400, noMacro: 600, left: 0, cleared: 100, clearedLow: 90 },
      notices: { attributed: 60, unattributed: 20, rejected: 20 },
    },
    awaited: 400,
    endpoints: [
      { url: 'http://a.example/', state: 'ejected', failures: 9 },
      { url: 'http://b.example/', state: 'up', failures: 0 },
    ],
  })
  const state = { held: true, kept: 'bad', keptSpend: 'warn', inactive: ['us-east'] } as const
  const { level, reasons } = healthOf(all, { ...context, ...state, noticed: false })
  t.equal(level, 'bad')
  t.same(
    reasons.map((reason) => `${reason.level} ${reason.rule}`),
    [
      ...['bad failed', 'bad kept_wins'],
      ...['warn no_macro', 'warn no_notices', 'warn notices_refused', 'warn notices_unattributed'],
      ...['warn price_too_low', 'warn endpoints', 'warn overload', 'warn qps', 'warn inactive'],
      ...['warn kept_spend', 'warn held'],
    ],
  )
})

t.test('sums of nodes', async (t) => {
  const url = 'http://a.example/'
  const one = figures({
    requests: { answer: 1 },
    durations: { '0.1': 98 },
    qps: 5,
    endpoints: [{ url, state: 'up', failures: 0 }],
  })
  const other = figures({
    requests: { answer: 2, timeout: 1 },
    durations: { Infinity: 2 },
    qps: 7,
    endpoints: [{ url, state: 'ejected', failures: 9 }],
  })
  const sum = added(added(undefined, one), other)
  t.same(sum.requests, { answer: 3, timeout: 1 })
  t.equal(sum.qps, 12)
  t.same(
    sum.endpoints,
    [{ url, state: 'ejected', failures: 9 }],
    'the worst state that a node sees',
  )
  t.same(latencyOf({}), { p50: null, p99: null })
  t.equal(latencyOf(sum.durations).p99, 0.1, 'beyond the last bound: at least that')
  t.equal(latencyOf({ '0.1': 10, '0.2': 30 }).p50?.toFixed(3), '0.133')
})
