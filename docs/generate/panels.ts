/** The panels of the Grafana dashboards. */
import {
  armSum,
  keptSeries,
  marginPerBid,
  nodes,
  percentiles,
  perPod,
  rate,
  ssp,
} from './promql.ts'

export interface Panel {
  title: string
  /** Grafana's; `none` by default. */
  unit?: string
  /** Legend and query of each series. */
  series: Readonly<Record<string, string>>
  /** What it shows, and what to do. */
  about: string
  /** `timeseries` by default. `stat` and `table` show the present values. */
  type?: 'timeseries' | 'stat' | 'table' | 'heatmap'
}

/** The ten suppliers with the most of something: of 300, one line each could not be read. */
const tenMost = (query: string) => `topk(10, ${query})`
const requests = (labels: string) =>
  `sum by (ssp) (rate(bidweir_requests_total{${ssp},${labels}}[$__rate_interval]))`
/** The metric sums CPM: prices of 1,000 impressions. */
const marginPerSecond = `sum by (ssp) (deriv(bidweir_margin_sum{${ssp}}[10m])) / 1000`
const failures = 'outcome=~"timeout|upstream_error|overload"'

export const overview: Panel[] = [
  {
    title: 'Objectives met, last hour',
    type: 'stat',
    unit: 'percentunit',
    about:
      'Of the three objectives: requests not refused for limits of bidweir, requests to which it adds at most 5 ms, notices stored. They are recorded by the rules of the chart (metrics.prometheusRule.enabled).',
    series: { '{{slo}}': `min by (slo) (1 - bidweir:slo_errors:ratio1h{${nodes}})` },
  },
  {
    title: 'Error budget spent, times the permitted rate',
    about: 'Over an hour. At 14.4 somebody is paged, above 1 the budget of 30 days does not last.',
    series: {
      '{{slo}}': `max by (slo) (bidweir:slo_errors:ratio1h{${nodes}}) / max by (slo) (bidweir:slo_budget)`,
    },
  },
  {
    title: 'Latency of bids',
    type: 'heatmap',
    unit: 's',
    about:
      'Requests by latency, the supplier included. A second band shows that some suppliers, or a node, are slow.',
    series: { '{{le}}': rate('bidweir_request_duration_seconds_bucket', 'le') },
  },
  {
    title: 'Requests by outcome',
    unit: 'reqps',
    about: 'The board traffic has more.',
    series: { '{{outcome}}': rate('bidweir_requests_total', 'outcome') },
  },
  {
    title: 'Suppliers with most requests',
    type: 'table',
    unit: 'reqps',
    about: 'The ten busiest.',
    series: { '{{ssp}}': tenMost(requests('outcome!="refused"')) },
  },
  {
    title: 'Suppliers with most failed requests',
    type: 'table',
    unit: 'reqps',
    about:
      'timeout, upstream_error and overload. One of them: tell the supplier. All: see the nodes.',
    series: { '{{ssp}}': tenMost(requests(failures)) },
  },
  {
    title: 'Suppliers with the largest share of failed requests',
    type: 'table',
    unit: 'percentunit',
    about: 'Of those with at least one request a second.',
    series: {
      '{{ssp}}': tenMost(`${requests(failures)} / (${requests('outcome!="refused"')} > 1)`),
    },
  },
  {
    title: 'Suppliers that earn most',
    type: 'table',
    about: 'Margin per second, in the base currency.',
    series: { '{{ssp}}': tenMost(marginPerSecond) },
  },
]

export const traffic: Panel[] = [
  {
    title: 'Bid requests by outcome',
    unit: 'reqps',
    about:
      'answer is what the supplier sent. inactive, qps, unreadable, overload, timeout and upstream_error are no-bids of bidweir: the runbook has each.',
    series: { '{{outcome}}': rate('bidweir_requests_total', 'outcome') },
  },
  {
    title: 'Bid requests of the ten busiest suppliers',
    unit: 'reqps',
    about: 'One line falls: that supplier or its callers. All fall: bidweir, or the way to it.',
    series: { '{{ssp}}': tenMost(rate('bidweir_requests_total', 'ssp')) },
  },
  {
    title: 'Latency',
    unit: 's',
    about: 'From the head of a request to its response, the supplier included.',
    series: percentiles('bidweir_request_duration_seconds'),
  },
  {
    title: 'Latency of suppliers',
    unit: 's',
    about: 'Beside the latency above: the part that is the suppliers’.',
    series: percentiles('bidweir_upstream_duration_seconds'),
  },
  {
    title: 'Time that bidweir adds',
    unit: 's',
    about: 'Above some milliseconds: too much load for the CPU. See the lag of the event loop.',
    series: percentiles('bidweir_overhead_seconds'),
  },
  {
    title: 'Endpoints that answer',
    about: '1: up on every node. 0: failing or ejected on a node.',
    series: { '{{ssp}} {{endpoint}}': `min by (ssp, endpoint) (bidweir_endpoint_up{${ssp}})` },
  },
  {
    title: 'Requests in flight, waiting, and their limit',
    about:
      'At the limit with some waiting: the supplier is past its capacity, and overload follows. bidweir_supplier_limit_cause says why the limit has its value.',
    series: {
      'in flight': `sum(bidweir_requests_in_flight{${ssp}})`,
      waiting: `sum(bidweir_supplier_queued{${ssp}})`,
      limit: `sum(bidweir_supplier_limit{${ssp}})`,
    },
  },
  {
    title: 'Responses left as they came',
    unit: 'reqps',
    about:
      'no_macro, content_type and the like: responses that OPD may not change. The list of reasons explains each.',
    series: { '{{reason}}': rate('bidweir_answers_untouched_total', 'reason') },
  },
]

export const money: Panel[] = [
  {
    title: 'Margin per second',
    about: 'In the base currency.',
    series: { '{{ssp}}': marginPerSecond },
  },
  {
    title: 'Cleared price per second',
    about: 'Of wins, in the base currency.',
    series: { '{{ssp}}': `${rate('bidweir_cleared_price_sum_total', 'ssp')} / 1000` },
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
    about:
      'treated: the model chose the price. A rise of hold, unchecked, shadow, capped, floor, below_floor or no_macro is a fall of what OPD earns.',
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
    about:
      'In the base currency per 1,000 bids, of all nodes, over six hours: optimised bids minus the holdout.',
    series: { '{{ssp}} {{mode}}': `${marginPerBid('optimised')} - ${marginPerBid('holdout')}` },
  },
  {
    title: 'Win notices',
    unit: 'reqps',
    about:
      'attributed is money. Many unattributed or rejected: contexts or the credential are missing. None at all: the platform stopped.',
    series: {
      '{{status}} {{attribution}}': rate('bidweir_impressions_total', 'status, attribution'),
    },
  },
  {
    title: 'What holds up prices',
    about: '1 for the guard that limited the last decision; none and start are normal.',
    series: {
      '{{ssp}} {{guard}}': `max by (ssp, guard) (bidweir_opd_guard{${ssp}})`,
    },
  },
]

export const state: Panel[] = [
  {
    title: 'Bid requests by node',
    unit: 'reqps',
    about: 'One line at 0: the load balancer does not use that node, or its port is closed to it.',
    series: { '{{pod}}': rate('bidweir_requests_total', 'pod', nodes) },
  },
  {
    title: 'Nodes by version',
    about: 'Two versions for longer than a rollout: it is stuck.',
    series: { '{{version}}': `count by (version) (bidweir_build_info{${nodes}})` },
  },
  {
    title: 'CPU',
    about: 'Cores of each node. One busy thread: at .8 and more, add nodes.',
    series: {
      '{{pod}}': `sum by (pod) (rate(process_cpu_seconds_total{${nodes}}[$__rate_interval]))`,
    },
  },
  {
    title: 'Memory',
    unit: 'bytes',
    about: 'Resident. Near the memory limit the kernel ends the process.',
    series: perPod('process_resident_memory_bytes'),
  },
  {
    title: 'Memory of bodies',
    unit: 'bytes',
    about: 'At its limit requests are refused with overload.',
    series: {
      '{{pod}}': `bidweir_held_bytes{${nodes}}`,
      'limit {{pod}}': `bidweir_held_bytes_limit{${nodes}}`,
    },
  },
  {
    title: 'Event loop, lag',
    unit: 's',
    about: 'Worst since the last scrape. Above .1 s every bid waits that long.',
    series: perPod('bidweir_event_loop_lag_seconds'),
  },
  {
    title: 'Configuration: refused, waiting for a restart',
    about: '1: the log of the node has the faults, or the keys that wait.',
    series: {
      'refused {{pod}}': `1 - bidweir_config_last_reload_successful{${nodes}}`,
      'restart {{pod}}': `bidweir_restart_needed{${nodes}}`,
    },
  },
  {
    title: 'Commits of wins',
    unit: 's',
    about: 'Above .1 s the database is slow; notices wait for it.',
    series: percentiles('bidweir_store_commit_seconds', nodes),
  },
  {
    title: 'Notices that wait, or were answered 503',
    about: '503: the database does not store wins. Platforms send them again.',
    series: {
      'waiting {{pod}}': `bidweir_ledger_waiting{${nodes}}`,
      '503 {{pod}}': `increase(bidweir_impressions_unavailable_total{${nodes}}[$__rate_interval])`,
    },
  },
  {
    title: 'Database, and nodes that drain',
    about: 'database 0: a write failed. draining 1: the node ends.',
    series: {
      'database {{pod}}': `bidweir_store_up{${nodes}}`,
      'draining {{pod}}': `bidweir_draining{${nodes}}`,
    },
  },
  {
    title: 'Nodes that differ, and their clocks',
    about:
      'differs 1: the context keys or the configuration are not those of the other nodes. clock: seconds from that of PostgreSQL.',
    series: {
      'differs {{pod}} {{what}}': `bidweir_node_differs{${nodes}}`,
      'clock {{pod}}': `bidweir_clock_offset_seconds{${nodes}}`,
    },
  },
  {
    title: 'Free disk of stateDir',
    unit: 'percentunit',
    about: 'At 0 no snapshot of a model is written, and SQLite stores no win.',
    series: {
      '{{pod}}': `bidweir_state_free_bytes{${nodes}} / bidweir_state_size_bytes{${nodes}}`,
    },
  },
  {
    title: 'Worker processes that were replaced',
    about: 'One ended, or did not report for 5 s. The requests in it were lost.',
    series: { '{{pod}}': `increase(bidweir_workers_replaced_total{${nodes}}[30m])` },
  },
  {
    title: 'Refit of the model',
    unit: 's',
    about:
      'How long the refit that runs has taken. Seconds are normal; after 10 minutes it is ended.',
    series: perPod('bidweir_model_refit_seconds'),
  },
  {
    title: 'Redis',
    about: '0: the node goes on alone.',
    series: perPod('bidweir_redis_up'),
  },
  {
    title: 'Refused calls and log-ins',
    unit: 'reqps',
    about: 'password and throttled: someone guesses, or a client has an old password.',
    series: { '{{kind}}': rate('bidweir_auth_failures_total', 'kind', nodes) },
  },
  {
    title: 'Model updates between nodes',
    unit: 'ops',
    about: 'sent and merged are normal; refused, dropped and lost are not.',
    series: { '{{result}}': rate('bidweir_model_deltas_total', 'result', nodes) },
  },
  {
    title: 'Age of the model',
    unit: 's',
    about: 'A snapshot is written every five minutes.',
    series: { '{{pod}} {{mode}}': `bidweir_model_age_seconds{${nodes}}` },
  },
  {
    title: 'Bid log',
    unit: 'bytes',
    about: 'Bounded; when it is full, bare notices of old bids are not attributed.',
    series: perPod('bidweir_bidlog_bytes'),
  },
]

const agentTime = 'bidweir_agent_duration_seconds'
const agentWins = (labels: string) => rate('bidweir_agent_wins_total', 'ssp', `${ssp}${labels}`)

export const agent: Panel[] = [
  {
    title: 'Agent calls by outcome',
    unit: 'reqps',
    about:
      'priced: a mutation was sent. unchanged: every bid keeps its price. The others are answered empty: docs/agent.md has each.',
    series: { '{{outcome}}': rate('bidweir_agent_calls_total', 'outcome') },
  },
  {
    title: 'Agent calls by supplier',
    unit: 'reqps',
    about:
      'One line falls: that originator. All fall: the exchange throttles the agent, or the way to it.',
    series: { '{{ssp}}': rate('bidweir_agent_calls_total', 'ssp') },
  },
  {
    title: 'Time to answer an agent call',
    unit: 's',
    about: 'Of all suppliers. Exchanges expect 5 ms.',
    series: percentiles(agentTime, nodes),
  },
  {
    title: 'Agent calls answered within 5 ms',
    unit: 'percentunit',
    about: 'Of all suppliers. Below 95 %: exchanges throttle the agent.',
    series: {
      share: `sum(rate(${agentTime}_bucket{${nodes},le="0.005"}[$__rate_interval])) / sum(rate(${agentTime}_count{${nodes}}[$__rate_interval]))`,
    },
  },
  {
    title: 'Prices that agent calls changed',
    unit: 'cps',
    about: 'Mutations by supplier.',
    series: { '{{ssp}}': rate('bidweir_agent_mutations_total', 'ssp') },
  },
  {
    title: 'Lower prices that the exchange applied',
    unit: 'percentunit',
    about:
      'Of the wins of lowered bids. Where a price was not applied, the bid won at its own price, and OPD earned nothing.',
    series: { '{{ssp}}': `${agentWins(',applied="true"')} / ${agentWins('')}` },
  },
]
