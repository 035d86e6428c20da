/** The Grafana dashboards of the chart: traffic, money and wins kept, nodes and stores, agent calls. */
import { agent, money, type Panel, state, traffic } from './panels.ts'
import { nodes } from './promql.ts'

const datasource = { type: 'prometheus', uid: '$datasource' }

function panel({ title, unit = 'none', series, about }: Panel, at: number): object {
  return {
    id: at + 1,
    type: 'timeseries',
    title,
    description: about,
    datasource,
    gridPos: { h: 8, w: 12, x: (at % 2) * 12, y: Math.floor(at / 2) * 8 },
    fieldConfig: { defaults: { unit, ...(unit === 'none' ? {} : { min: 0 }) }, overrides: [] },
    options: {
      legend: { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
    targets: Object.entries(series).map(([legendFormat, expr], target) => ({
      refId: String.fromCharCode(65 + target),
      ...{ expr, legendFormat, datasource },
    })),
  }
}

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
    annotations: { list: [] },
    templating: { list },
    panels: panels.map(panel),
  }
  return `${JSON.stringify(made, null, 1)}\n`
}

/** By file name. */
export const dashboards = (): Record<string, string> => ({
  'traffic.json': dashboard('traffic', 'bidweir: traffic', traffic),
  'money.json': dashboard('money', 'bidweir: money and wins kept', money),
  'nodes.json': dashboard('nodes', 'bidweir: nodes and stores', state),
  'agent.json': dashboard('agent', 'bidweir: agent calls', agent),
})
