/** The panels of the Grafana dashboards. */

export interface Panel {
  title: string
  unit: string
  /** Legend and query of each series. */
  series: Readonly<Record<string, string>>
  about?: string
}

export const nodes = 'namespace=~"$namespace",service=~"$service"'
const ssp = `${nodes},ssp=~"$ssp"`
/** A rate over all nodes. */
const rate = (name: string, by: string, labels = ssp) =>
  `sum by (${by}) (rate(${name}{${labels}}[$__rate_interval]))`
const quantile = (q: number, name: string, labels = ssp) =>
  `histogram_quantile(${q}, ${rate(`${name}_bucket`, 'le', labels)})`
const percentiles = (name: string, labels = ssp) => ({
  '50 %': quantile(0.5, name, labels),
  '99 %': quantile(0.99, name, labels),
})
const each = (name: string, labels = nodes) => ({ '{{pod}}': `${name}{${labels}}` })
/** A sum by arm of all nodes over the last hours. */
const armSum = (name: string, arm: 'optimised' | 'holdout') =>
  `sum by (ssp, mode) (increase(bidweir_arm_${name}_total{${ssp},arm="${arm}"}[6h]))`
/** A sum per bid of the optimised bids divided by that of the holdout, with the bounds of its logarithm. */
function keptSeries(sum: string, variance: (arm: 'optimised' | 'holdout') => string) {
  const perBid = (arm: 'optimised' | 'holdout') => `${armSum(sum, arm)} / ${armSum('bids', arm)}`
  const ratio = `(${perBid('optimised')}) / (${perBid('holdout')})`
  const width = `exp(1.96 * sqrt(${variance('optimised')} + ${variance('holdout')}))`
  return {
    '{{ssp}} {{mode}}': ratio,
    '{{ssp}} {{mode}} lower': `${ratio} / ${width}`,
    '{{ssp}} {{mode}} upper': `${ratio} * ${width}`,
  }
}
const marginPerBid = (arm: 'optimised' | 'holdout') =>
  `(${armSum('won_in_price_sum', arm)} - ${armSum('cleared_price_sum', arm)}) / ${armSum('bids', arm)}`

export const traffic: Panel[] = [
  {
    title: 'Bid requests by outcome',
    unit: 'reqps',
    series: { '{{outcome}}': rate('bidweir_requests_total', 'outcome') },
  },
  {
    title: 'Bid requests by supplier',
    unit: 'reqps',
    series: { '{{ssp}}': rate('bidweir_requests_total', 'ssp') },
  },
  { title: 'Latency', unit: 's', series: percentiles('bidweir_request_duration_seconds') },
  {
    title: 'Latency of suppliers',
    unit: 's',
    series: percentiles('bidweir_upstream_duration_seconds'),
  },
  { title: 'Time that bidweir adds', unit: 's', series: percentiles('bidweir_overhead_seconds') },
  {
    title: 'Endpoints that answer',
    unit: 'none',
    series: { '{{ssp}} {{endpoint}}': `min by (ssp, endpoint) (bidweir_endpoint_up{${ssp}})` },
  },
  {
    title: 'Requests in flight, waiting, and their limit',
    unit: 'none',
    series: {
      'in flight': `sum(bidweir_requests_in_flight{${ssp}})`,
      waiting: `sum(bidweir_supplier_queued{${ssp}})`,
      limit: `sum(bidweir_supplier_limit{${ssp}})`,
    },
  },
  {
    title: 'Responses left as they came',
    unit: 'reqps',
    series: { '{{reason}}': rate('bidweir_answers_untouched_total', 'reason') },
  },
]

export const money: Panel[] = [
  {
    title: 'Margin per second',
    unit: 'none',
    about: 'CPM sums of the base currency; divide by 1000 for currency units.',
    series: { '{{ssp}}': `sum by (ssp) (deriv(bidweir_margin_sum{${ssp}}[10m]))` },
  },
  {
    title: 'Cleared price per second',
    unit: 'none',
    series: { '{{ssp}}': rate('bidweir_cleared_price_sum_total', 'ssp') },
  },
  {
    title: 'Price reduction',
    unit: 'percentunit',
    about: 'Share of the inbound price that is taken off, over all bids.',
    series: {
      '{{ssp}}': `1 - ${rate('bidweir_out_price_sum_total', 'ssp')} / ${rate('bidweir_in_price_sum_total', 'ssp')}`,
    },
  },
  {
    title: 'Bids by reason',
    unit: 'reqps',
    series: { '{{reason}}': rate('bidweir_bids_total', 'reason') },
  },
  {
    title: 'Win rate by arm',
    unit: 'percentunit',
    about: 'Of all nodes, over six hours.',
    series: {
      '{{ssp}} {{mode}} optimised': `${armSum('wins', 'optimised')} / ${armSum('bids', 'optimised')}`,
      '{{ssp}} {{mode}} holdout': `${armSum('wins', 'holdout')} / ${armSum('bids', 'holdout')}`,
    },
  },
  {
    title: 'Wins kept, with 95 % bounds',
    unit: 'percentunit',
    about: 'Of all nodes, over six hours, relative to the holdout.',
    series: keptSeries('wins', (arm) => `1 / ${armSum('wins', arm)}`),
  },
  {
    title: 'Spend kept, with 95 % bounds',
    unit: 'percentunit',
    about: 'Of all nodes, over six hours, relative to the holdout.',
    series: keptSeries(
      'won_in_price_sum',
      (arm) => `${armSum('won_in_price_squares', arm)} / ${armSum('won_in_price_sum', arm)} ^ 2`,
    ),
  },
  {
    title: 'Uplift of margin per bid',
    unit: 'none',
    about: 'CPM, of all nodes, over six hours: optimised bids minus the holdout.',
    series: { '{{ssp}} {{mode}}': `${marginPerBid('optimised')} - ${marginPerBid('holdout')}` },
  },
  {
    title: 'Win notices',
    unit: 'reqps',
    series: {
      '{{status}} {{attribution}}': rate('bidweir_impressions_total', 'status, attribution'),
    },
  },
  {
    title: 'What holds up prices',
    unit: 'none',
    series: {
      '{{ssp}} {{guard}}': `max by (ssp, guard) (bidweir_opd_guard{${ssp}})`,
    },
  },
]

export const state: Panel[] = [
  {
    title: 'Nodes by version',
    unit: 'none',
    series: { '{{version}}': `count by (version) (bidweir_build_info{${nodes}})` },
  },
  {
    title: 'CPU',
    unit: 'none',
    series: {
      '{{pod}}': `sum by (pod) (rate(process_cpu_seconds_total{${nodes}}[$__rate_interval]))`,
    },
  },
  { title: 'Memory', unit: 'bytes', series: each('process_resident_memory_bytes') },
  {
    title: 'Memory of bodies',
    unit: 'bytes',
    series: {
      '{{pod}}': `bidweir_held_bytes{${nodes}}`,
      'limit {{pod}}': `bidweir_held_bytes_limit{${nodes}}`,
    },
  },
  { title: 'Event loop, lag', unit: 's', series: each('bidweir_event_loop_lag_seconds') },
  {
    title: 'Configuration: refused, waiting for a restart',
    unit: 'none',
    series: {
      'refused {{pod}}': `1 - bidweir_config_last_reload_successful{${nodes}}`,
      'restart {{pod}}': `bidweir_restart_needed{${nodes}}`,
    },
  },
  {
    title: 'Commits of wins',
    unit: 's',
    series: percentiles('bidweir_store_commit_seconds', nodes),
  },
  {
    title: 'Notices that wait, or were answered 503',
    unit: 'none',
    series: {
      'waiting {{pod}}': `bidweir_ledger_waiting{${nodes}}`,
      '503 {{pod}}': `increase(bidweir_impressions_unavailable_total{${nodes}}[$__rate_interval])`,
    },
  },
  {
    title: 'Database, and nodes that drain',
    unit: 'none',
    series: {
      'database {{pod}}': `bidweir_store_up{${nodes}}`,
      'draining {{pod}}': `bidweir_draining{${nodes}}`,
    },
  },
  { title: 'Redis', unit: 'none', series: each('bidweir_redis_up') },
  {
    title: 'Refused calls and log-ins',
    unit: 'reqps',
    series: { '{{kind}}': rate('bidweir_auth_failures_total', 'kind', nodes) },
  },
  {
    title: 'Model updates between nodes',
    unit: 'ops',
    series: { '{{result}}': rate('bidweir_model_deltas_total', 'result', nodes) },
  },
  {
    title: 'Age of the model',
    unit: 's',
    series: { '{{pod}} {{mode}}': `bidweir_model_age_seconds{${nodes}}` },
  },
  { title: 'Bid log', unit: 'bytes', series: each('bidweir_bidlog_bytes') },
]
