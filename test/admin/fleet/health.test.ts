/** The state of an integration at a glance. */
import t from 'tap'
import { added, quantile, type SupplierFigures } from '../../../admin/fleet/figures.ts'
import { type HealthContext, healthOf, keptLevel } from '../../../admin/fleet/health.ts'

const figures = (over: Partial<SupplierFigures> = {}): SupplierFigures => ({
  requests: {},
  durations: {},
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
  kept: 'none',
  keptSpend: 'none',
}
const level = (requests: Record<string, number>, over: Partial<HealthContext> = {}) =>
  healthOf(figures({ requests }), { ...context, ...over }).level

t.test('the level of requests', async (t) => {
  t.equal(healthOf(undefined, context).level, 'none')
  t.equal(level({}), 'none', 'without requests nothing is known')
  t.equal(level({ answer: 90, no_bid: 10 }), 'ok')
  t.equal(level({ answer: 97, timeout: 3 }), 'warn')
  t.equal(level({ answer: 75, timeout: 20, upstream_error: 5 }), 'bad')
  const dead = healthOf(figures({ requests: { upstream_error: 4 } }), context)
  t.equal(dead.level, 'bad')
  t.match(dead.reasons, ['no request was answered in the last minutes'])
  t.equal(level({ overload: 10, answer: 90 }), 'warn')
  t.equal(level({ qps: 100 }), 'warn', 'refused by us: the supplier is not at fault')
  t.equal(level({ answer: 1 }, { opd: 'invalid' }), 'bad')
  t.equal(level({ answer: 1 }, { held: true }), 'warn')
})

t.test('kept rates against their floor', async (t) => {
  const interval = (lower: number, at: number, upper: number) => ({ lower, at, upper })
  t.equal(keptLevel(interval(0.9, 0.98, 1.1), 0.97), 'ok')
  t.equal(keptLevel(interval(0.9, 0.95, 1), 0.97), 'warn', 'it may be above')
  t.equal(keptLevel(interval(0.9, 0.93, 0.96), 0.97), 'bad', 'it is surely below')
  t.equal(keptLevel(null, 0.97), 'none')
  t.equal(level({ answer: 5 }, { keptSpend: 'bad' }), 'bad')
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
  t.equal(quantile({}, 0.5), null)
  t.equal(quantile(sum.durations, 0.99), 0.1, 'beyond the last bound: at least that')
  t.equal(quantile({ '0.1': 10, '0.2': 10 }, 0.75)?.toFixed(3), '0.150')
})
