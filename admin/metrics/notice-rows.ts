/** Metrics of win notices and their money. */

import { byLabel, type MetricRow, one } from '../../opd/shared/metrics.ts'
import type { ImpressionCounters, SupplierMoney } from '../impressions/counters.ts'

export function noticeRows(counters: ImpressionCounters): MetricRow[] {
  const labelled = (names: readonly string[], key: string) => {
    const values = key.split('\t')
    return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']))
  }
  function* perSupplierMoney(pick: (money: SupplierMoney) => number, onlyRaised = false) {
    for (const [key, money] of counters.money)
      if (!onlyRaised || pick(money) > 0)
        yield { value: pick(money), labels: labelled(['ssp', 'mode'], key) }
  }
  function* marginSamples() {
    for (const [key, { margin, priced }] of counters.money) {
      const labels = labelled(['ssp', 'mode'], key)
      yield { value: margin, labels, metricName: 'bidweir_margin_sum' }
      yield { value: priced, labels, metricName: 'bidweir_margin_count' }
    }
  }
  // `received` equals the sum by status in every scrape, so both are read at the same moment
  let seen: [key: string, count: number][] = []
  const received = () => {
    seen = [...counters.impressions]
    return one(counters.received)
  }
  function* impressionSamples() {
    for (const [key, value] of seen)
      yield { value, labels: labelled(['ssp', 'mode', 'status', 'attribution', 'event'], key) }
  }
  function* names(of: ImpressionCounters['publishers'], label: 'publisher' | 'domain') {
    for (const { ssp, mode, name, value } of of.scraped())
      yield { value, labels: { ssp, mode, [label]: name } }
  }

  return [
    [
      'bidweir_impressions_received_total',
      'counter',
      'Notices that were answered for good',
      received,
    ],
    ['bidweir_impressions_total', 'counter', 'Notices by what became of them', impressionSamples],
    [
      'bidweir_impressions_unavailable_total',
      'counter',
      'Notices answered 503, to be sent again',
      () => one(counters.unavailable),
    ],
    [
      'bidweir_impressions_late_total',
      'counter',
      'Attributed after the attribution window',
      () => perSupplierMoney((money) => money.late, true),
    ],
    [
      'bidweir_impressions_over_total',
      'counter',
      'Cleared more than 0.5 % above out_ba',
      () => perSupplierMoney((money) => money.over, true),
    ],
    [
      'bidweir_impressions_unreadable_margin_total',
      'counter',
      'Margin-balancing wins with a context that cannot be read',
      () => one(counters.unreadableMargin),
    ],
    [
      'bidweir_impressions_refused_unkept_total',
      'counter',
      'Refused notices of strangers that the ledger did not keep',
      () => one(counters.refusedUnkept),
    ],
    [
      'bidweir_cleared_price_sum_total',
      'counter',
      'Cleared prices, CPM in the base currency',
      () => perSupplierMoney((money) => money.cleared),
    ],
    [
      'bidweir_won_out_price_sum_total',
      'counter',
      'out_ba of the same wins',
      () => perSupplierMoney((money) => money.out),
    ],
    [
      'bidweir_margin',
      'summary',
      'Revenue less cleared price of wins, CPM in the base currency; the sum may fall',
      marginSamples,
    ],
    [
      'bidweir_contexts_total',
      'counter',
      'Contexts of notices by state',
      () => byLabel('context', Object.entries(counters.contexts)),
    ],
    [
      'bidweir_publisher_impressions_total',
      'counter',
      'Attributed impressions by publisher',
      () => names(counters.publishers, 'publisher'),
    ],
    [
      'bidweir_domain_impressions_total',
      'counter',
      'Attributed impressions by domain',
      () => names(counters.domains, 'domain'),
    ],
  ]
}
