/** Metrics of win notices and their money. */

import {
  busiest,
  byLabel,
  counter,
  FoldedSum,
  type MetricRow,
  one,
  summary,
} from '../../opd/base/metrics.ts'
import type { ImpressionCounters, SupplierMoney } from '../impressions/counters.ts'

export function noticeMetrics(counters: ImpressionCounters): MetricRow[] {
  const labelled = (names: readonly string[], key: string) => {
    const values = key.split('\t')
    return Object.fromEntries(names.map((name, index) => [name, values[index] ?? '']))
  }
  let top: ReadonlySet<SupplierMoney> = new Set()
  function* moneyRows() {
    for (const [key, money] of counters.money)
      yield [money, labelled(['ssp', 'mode'], key)] as const
  }
  const folded = (pick: (money: SupplierMoney) => number, metricName?: string) => {
    const sum = new FoldedSum(pick)
    return () => sum.samples(moneyRows(), top, metricName)
  }
  const marginSum = folded(({ margin }) => margin, 'bidweir_margin_sum')
  const marginCount = folded(({ priced }) => priced, 'bidweir_margin_count')
  /** Absent while it is 0. */
  function* warnings(pick: (money: SupplierMoney) => number) {
    for (const [money, labels] of moneyRows())
      if (pick(money) > 0) yield { value: pick(money), labels }
  }
  // `received` equals the sum by status in every scrape, so both are read at the same moment
  let seen: [key: string, count: number][] = []
  function* received() {
    seen = [...counters.impressions]
    yield* one(counters.received)
    top = yield* busiest(counters.money.values(), ({ priced }) => priced)
  }
  function* impressionSamples() {
    for (const [key, value] of seen)
      yield { value, labels: labelled(['ssp', 'mode', 'status', 'attribution', 'event'], key) }
  }
  function* names(counts: ImpressionCounters['publishers'], label: 'publisher' | 'domain') {
    for (const { ssp, mode, name, value } of counts.samples())
      yield { value, labels: { ssp, mode, [label]: name } }
  }

  return [
    counter('bidweir_impressions_received_total', 'Notices with a final response', received),
    counter('bidweir_impressions_total', 'Notices by status and attribution', impressionSamples),
    counter(
      'bidweir_losses_total',
      'Loss notices by status: recorded, duplicate, unattributed or rejected',
      () =>
        [...counters.losses].map(([key, value]) => ({
          value,
          labels: labelled(['ssp', 'status'], key),
        })),
    ),
    counter(
      'bidweir_agent_wins_total',
      'Wins of bids that an agent call had lowered: whether the exchange applied the lower price',
      function* () {
        for (const [ssp, { applied, refused }] of counters.mutations) {
          yield { value: applied, labels: { ssp, applied: 'true' } }
          yield { value: refused, labels: { ssp, applied: 'false' } }
        }
      },
    ),
    counter('bidweir_impressions_unavailable_total', 'Notices answered 503, to be sent again', () =>
      one(counters.unavailable),
    ),
    counter('bidweir_impressions_late_total', 'Wins attributed after the attribution window', () =>
      warnings(({ late }) => late),
    ),
    counter(
      'bidweir_impressions_over_total',
      'Wins whose cleared price was more than 0.5 % above out_ba',
      () => warnings(({ over }) => over),
    ),
    counter(
      'bidweir_impressions_unreadable_margin_total',
      'Wins in margin mode with a context that could not be read',
      () => one(counters.unreadableMargin),
    ),
    counter(
      'bidweir_impressions_refused_unkept_total',
      'Refused notices without authentication that the ledger did not store',
      () => one(counters.refusedUnkept),
    ),
    counter(
      'bidweir_cleared_price_sum_total',
      'Cleared prices of wins, CPM in the base currency',
      folded(({ cleared }) => cleared),
    ),
    counter(
      'bidweir_won_out_price_sum_total',
      'out_ba of wins, CPM in the base currency',
      folded(({ out }) => out),
    ),
    summary(
      'bidweir_margin',
      'Revenue minus cleared price of wins, CPM in the base currency; the sum may fall',
      function* () {
        yield* marginSum()
        yield* marginCount()
      },
    ),
    counter(
      'bidweir_contexts_total',
      'Contexts of notices: valid, absent, unexpanded, invalid or expired',
      () => byLabel('context', Object.entries(counters.contexts)),
    ),
    counter('bidweir_publisher_impressions_total', 'Attributed impressions by publisher', () =>
      names(counters.publishers, 'publisher'),
    ),
    counter('bidweir_domain_impressions_total', 'Attributed impressions by domain', () =>
      names(counters.domains, 'domain'),
    ),
  ]
}
