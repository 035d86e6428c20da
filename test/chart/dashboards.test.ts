/** The service exposes every metric that dashboards and alerts query, and Prometheus accepts the queries. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { z } from 'zod'
import { chart, manifests, needsHelm, root, template } from './helm.ts'
import { needsPromtool, promtool } from './prometheus.ts'

interface Dashboard {
  uid: string
  annotations: { list: { name: string; expr: string }[] }
  panels: { title: string; type: string; options: object; targets: { expr: string }[] }[]
}
const folder = join(chart, 'dashboards')
const dashboards = readdirSync(folder).map(
  (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Dashboard,
)
const queries = dashboards.flatMap(({ panels, annotations }) => [
  ...panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr }))),
  ...annotations.list.map(({ name, expr }) => ({ title: name, expr })),
])
const alerts = parse(readFileSync(join(chart, 'files/alerts.yaml'), 'utf8')) as {
  groups: { rules: { alert?: string; record?: string; expr: string }[] }[]
}
const rules = alerts.groups.flatMap((group) => group.rules)
const recorded = new Set(rules.flatMap(({ record }) => record ?? []))

/** Names and types from the reference, which `npm run docs` writes from a running service. */
const reference = readFileSync(join(root, 'docs/reference/metrics.md'), 'utf8')
const types = new Map(
  [...reference.matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, name, type]) => [name!, type!]),
)
const exists = (name: string) => {
  const base = /^(.*)_(bucket|sum|count)$/.exec(name)
  return types.has(name) || (base !== null && /histogram|summary/.test(types.get(base[1]!) ?? ''))
}

t.test('every metric of a dashboard or an alert is one of the service', async (t) => {
  const all = [
    ...queries,
    ...rules
      .filter(({ expr }) => !expr.startsWith('vector('))
      .map(({ alert, record, expr }) => ({ title: alert ?? record!, expr })),
  ]
  t.ok(all.length > 40)
  for (const { title, expr } of all) {
    const names = expr.match(/\b((bidweir|process|nodejs)_|bidweir:)[\w:]+/g) ?? []
    t.not(names.length, 0, title)
    t.same(
      names.filter((name) => !exists(name) && !recorded.has(name)),
      [],
      title,
    )
    // a gauge has no rate, and a counter is nothing without one
    for (const [, name] of expr.matchAll(/\b(?:rate|increase)\((\w+)/g))
      t.match(types.get(name!) ?? 'histogram', /counter|histogram/, `${title}: ${name}`)
  }
})

t.test('Prometheus understands every query', needsPromtool, async (t) => {
  const rules = queries.map(({ expr }, index) => ({
    record: `panel:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }))
  const file = join(t.testdir({}), 'panels.yaml')
  writeFileSync(file, stringify({ groups: [{ name: 'panels', rules }] }))
  const { ok, text } = promtool('check', 'rules', file)
  t.ok(ok, text)
})

/** A definition of the schemas that Grafana publishes (grafana-foundation-sdk). */
const grafana = (file: string, definition: string) => {
  const path = join(root, 'test/chart/fixtures/grafana', `${file}.schema.json`)
  const schema = JSON.parse(readFileSync(path, 'utf8')) as Parameters<typeof z.fromJSONSchema>[0]
  return z.fromJSONSchema({ ...(schema as object), $ref: `#/definitions/${definition}` })
}

t.test('each dashboard is one by the schemas of Grafana', async (t) => {
  const [matched, options] = [grafana('dashboard', 'Dashboard'), grafana('timeseries', 'Options')]
  const query = grafana('prometheus', 'Dataquery')
  const faults = (schema: z.ZodType, value: unknown) => schema.safeParse(value).error?.issues ?? []
  for (const dashboard of dashboards) {
    t.same(faults(matched, dashboard), [], dashboard.uid)
    for (const panel of dashboard.panels) {
      if (panel.type === 'timeseries') t.same(faults(options, panel.options), [], panel.title)
      for (const target of panel.targets) t.same(faults(query, target), [], panel.title)
    }
  }
  const { panels, ...rest } = dashboards[0]!
  t.not(
    faults(matched, { ...rest, panels: [{ ...panels[0], titel: 'a' }] }).length,
    0,
    'a key of no panel',
  )
})

t.test('each dashboard is a ConfigMap that Grafana’s sidecar finds', needsHelm, async (t) => {
  const { text } = template('--set', 'metrics.dashboards.enabled=true')
  const maps = manifests(text).filter(({ metadata }) => metadata.name.includes('-dashboard-'))
  t.equal(maps.length, dashboards.length)
  for (const { metadata, data } of maps) {
    t.match(metadata, { labels: { grafana_dashboard: '1' } })
    t.match(JSON.parse(Object.values(data!)[0]!).uid, /^bidweir-/)
  }
})
