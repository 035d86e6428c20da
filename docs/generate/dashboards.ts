/** The Grafana dashboards of the chart: overview, traffic, money and wins kept, nodes and stores, agent calls. */
import { agent, money, overview, type Panel, state, traffic } from './panels.ts'
import { nodes, ssp } from './promql.ts'

const datasource = { type: 'prometheus', uid: '$datasource' }

/** Of each kind of panel. */
const options = {
  timeseries: {
    legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
    tooltip: { mode: 'multi', sort: 'desc' },
  },
  stat: { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: 'value', graphMode: 'area' },
  table: { showHeader: true, sortBy: [{ displayName: 'Value', desc: true }] },
  // the buckets are those of the metric
  heatmap: { calculate: false, yAxis: { unit: 's' }, color: { mode: 'scheme', scheme: 'Blues' } },
}
/** A table has the present values, a heatmap one row for each bucket. */
const ofTarget = {
  timeseries: {},
  stat: {},
  table: { format: 'table', instant: true, range: false },
  heatmap: { format: 'heatmap' },
}

function panel(
  { title, unit = 'none', series, about, type = 'timeseries' }: Panel,
  index: number,
): object {
  return {
    id: index + 1,
    type,
    title,
    description: about,
    datasource,
    gridPos: { h: 8, w: 12, x: (index % 2) * 12, y: Math.floor(index / 2) * 8 },
    fieldConfig: { defaults: { unit, ...(unit === 'none' ? {} : { min: 0 }) }, overrides: [] },
    options: options[type],
    targets: Object.entries(series).map(([legendFormat, expr], target) => ({
      refId: String.fromCharCode(65 + target),
      ...{ expr, legendFormat, datasource, ...ofTarget[type] },
    })),
  }
}

/** Marks in all panels: what people changed, which is the first question of a fault. */
const annotation = (name: string, iconColor: string, expr: string, titleFormat: string) => ({
  ...{ name, iconColor, expr, titleFormat, datasource, enable: true, hide: false, step: '30s' },
})
const annotations = [
  annotation(
    'Rollouts',
    'blue',
    `count by (version) (bidweir_build_info{${nodes}}) unless count by (version) (bidweir_build_info{${nodes}} offset 1m)`,
    'version {{version}} starts',
  ),
  annotation(
    'Reloads',
    'green',
    `max(increase(bidweir_config_reloads_total{${nodes},result="taken"}[1m])) > 0`,
    'configuration reloaded',
  ),
  annotation(
    'Refused reloads',
    'red',
    `max(increase(bidweir_config_reloads_total{${nodes},result="refused"}[1m])) > 0`,
    'configuration refused',
  ),
  annotation(
    'Holds',
    'orange',
    `sum by (ssp) (rate(bidweir_bids_total{${ssp},reason="hold"}[1m])) > 0 unless sum by (ssp) (rate(bidweir_bids_total{${ssp},reason="hold"}[1m] offset 1m)) > 0`,
    '{{ssp}} is held',
  ),
]

/** To the other boards, with the same time and variables. */
const links = [
  {
    ...{ title: 'bidweir', type: 'dashboards', tags: ['bidweir'], icon: 'external link' },
    ...{ tooltip: '', url: '', asDropdown: false, targetBlank: false },
    ...{ includeVars: true, keepTime: true },
  },
]

const variable = (name: string, query: string) => ({
  ...{ name, type: 'query', datasource, query, refresh: 2 },
  ...{ includeAll: true, multi: true, allValue: '.*', current: { text: 'All', value: '$__all' } },
})

function dashboard(name: string, title: string, panels: readonly Panel[]): string {
  const list = [
    { name: 'datasource', type: 'datasource', query: 'prometheus' },
    variable('namespace', 'label_values(bidweir_build_info, namespace)'),
    variable('service', 'label_values(bidweir_build_info{namespace=~"$namespace"}, service)'),
    variable('ssp', `label_values(bidweir_requests_total{${nodes}}, ssp)`),
  ]
  const made = {
    uid: `bidweir-${name}`,
    ...{ title, tags: ['bidweir'], schemaVersion: 39, editable: true, refresh: '30s' },
    // one time under the pointer in all panels
    graphTooltip: 1,
    time: { from: 'now-3h', to: 'now' },
    annotations: { list: annotations },
    links,
    templating: { list },
    panels: panels.map(panel),
  }
  return `${JSON.stringify(made, null, 1)}\n`
}

/** By file name. */
export const dashboards = (): Record<string, string> => ({
  'overview.json': dashboard('overview', 'bidweir: overview', overview),
  'traffic.json': dashboard('traffic', 'bidweir: traffic', traffic),
  'money.json': dashboard('money', 'bidweir: money and wins kept', money),
  'nodes.json': dashboard('nodes', 'bidweir: nodes and stores', state),
  'agent.json': dashboard('agent', 'bidweir: agent calls', agent),
})
