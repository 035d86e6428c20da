/** Each alert fires on its series, is silent on a healthy node's, and has its section in the runbook. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse, stringify } from 'yaml'
import { chart, manifests, needsHelm, root, template } from './helm.ts'
import { needsPromtool, promtool } from './prometheus.ts'

interface Rule {
  alert: string
  expr: string
  labels: Record<string, string>
  annotations: Record<string, string>
}
const file = join(chart, 'files/alerts.yaml')
const { groups } = parse(readFileSync(file, 'utf8')) as { groups: { rules: Rule[] }[] }
const rules = groups.at(-1)!.rules
const names = rules.map(({ alert }) => alert)
type Series = Record<string, string>
const cases = parse(readFileSync(join(root, 'test/chart/alerts.yaml'), 'utf8')) as {
  healthy: Series
  fires: Record<string, Series>
  scenarios: Record<string, { minutes: number; series: Series; fires: string[] }>
}

const metricsIn = (text: string) => text.match(/\b(?:(?:bidweir|process|kube)_\w+|up)\b/g) ?? []

/** Cases of alerts that share no metric, together: promtool makes a database for each group. */
function batches(alerts: readonly string[]) {
  const made: { metrics: Set<string>; alerts: string[] }[] = []
  for (const alert of alerts) {
    const { expr } = rules.find((rule) => rule.alert === alert)!
    const metrics = new Set([expr, ...Object.keys(cases.fires[alert]!)].flatMap(metricsIn))
    const batch = made.find((group) => metrics.isDisjointFrom(group.metrics))
    if (batch === undefined) made.push({ metrics, alerts: [alert] })
    else {
      batch.metrics = batch.metrics.union(metrics)
      batch.alerts.push(alert)
    }
  }
  return made.map((group) => group.alerts)
}

const group = (name: string, series: Series, expected: Record<string, boolean>) => ({
  name,
  interval: '1m',
  input_series: Object.entries(series).map(([series, values]) => ({ series, values })),
  promql_expr_test: Object.entries(expected).map(([alertname, fires]) => ({
    expr: `group(ALERTS{alertname="${alertname}", alertstate="firing"}) or vector(0)`,
    eval_time: '50m',
    exp_samples: [{ value: fires ? 1 : 0 }],
  })),
})

const inNamespace = (series: Series, namespace: string): Series =>
  Object.fromEntries(
    Object.entries(series).map(([name, values]) => [
      name.replace('namespace="n"', `namespace="${namespace}"`),
      values,
    ]),
  )

/** The alerts that fire are these, and no others. */
const scenario = (name: string, { minutes, series, fires }: (typeof cases.scenarios)[string]) => ({
  name,
  interval: '1m',
  input_series: Object.entries(series).map(([series, values]) => ({ series, values })),
  promql_expr_test: [
    {
      expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: `${minutes}m`,
      exp_samples: fires.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
    },
  ],
})

const all = (alerts: readonly string[], fires: boolean) =>
  Object.fromEntries(alerts.map((alert) => [alert, fires]))

/** The series of each alert in a namespace, and whether it fires. */
const fired = (namespace: string, alerts: readonly string[], fires: boolean) =>
  batches(alerts).map((batch) => {
    const series = Object.assign({}, ...batch.map((alert) => cases.fires[alert]!)) as Series
    return group(batch.join(), inNamespace(series, namespace), all(batch, fires))
  })

t.test('each alert fires on its series, and none on a healthy node', needsPromtool, async (t) => {
  t.same(Object.keys(cases.fires), names, 'each has a case')
  const tests = [group('healthy', cases.healthy, all(names, false)), ...fired('n', names, true)]
  const folder = t.testdir({})
  writeFileSync(
    join(folder, 'tests.yaml'),
    stringify({ rule_files: [file], evaluation_interval: '1m', tests }),
  )
  const { ok, text } = promtool('test', 'rules', join(folder, 'tests.yaml'))
  t.ok(ok, text)
})

for (const [name, data] of Object.entries(cases.scenarios))
  t.test(name, needsPromtool, async (t) => {
    const tests = join(t.testdir({}), 'tests.yaml')
    writeFileSync(
      tests,
      stringify({
        rule_files: [file],
        evaluation_interval: '1m',
        tests: [scenario(name, data)],
      }),
    )
    const { ok, text } = promtool('test', 'rules', tests)
    t.ok(ok, text)
  })

t.test('each alert says what happens and what to do, as its section in the runbook', async (t) => {
  const runbook = readFileSync(join(root, 'docs/operations/alerts.md'), 'utf8')
  const sections = new Map(
    [...runbook.matchAll(/^## (Bidweir.+)\n([\s\S]*?)(?=^## |$(?![\s\S]))/gm)].map(
      ([, name, text]) => [
        name!,
        text!
          .replaceAll(/\s+/g, ' ')
          .replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1')
          .trim(),
      ],
    ),
  )
  t.same([...sections.keys()], names)
  for (const { alert, labels, annotations } of rules) {
    const { summary, description, action } = annotations
    t.match(labels['severity'], /^(critical|warning)$/, alert)
    t.match(summary, /\S/, alert)
    const [what, cause, act] = sections
      .get(alert)!
      .replace(/ - See: .*?(?= - Act: )/, '')
      .split(/ - (?:Cause|Act): /)
    t.match(cause, /\S/, alert)
    t.same([what, act], [`**${labels['severity']}.** ${description}`, action], alert)
  }
})

t.test('the PrometheusRule has the alerts, each with its runbook link', needsHelm, async (t) => {
  const settings = [
    'enabled=true',
    'runbookUrl=https://docs.example/alerts',
    'labels.release=prometheus',
    'disabled={BidweirDown}',
    'additionalRules[0].record=a:b',
    'additionalRules[0].expr=vector(1)',
  ].map((set) => `metrics.prometheusRule.${set}`)
  const { text, error } = template(
    ...['--set', settings.join(',')],
    ...['--set-json', 'metrics.prometheusRule.thresholds={"sloAnswers":0.98}'],
  )
  const rule = manifests(text).find(({ kind }) => kind === 'PrometheusRule')
  t.match(rule, { metadata: { labels: { release: 'prometheus' } } }, error)
  type Rendered = { groups: { name: string; rules: Rule[] }[] }
  const rendered = Map.groupBy((rule!.spec as Rendered).groups, ({ name }) => name)
  const rulesOf = (group: string) => rendered.get(group)![0]!.rules
  t.same(
    [...rendered.keys()],
    [
      ...['test-bidweir-thresholds', 'test-bidweir-rates', 'test-bidweir'],
      'test-bidweir-additional',
    ],
  )
  const alerts = rulesOf('test-bidweir')
  t.same(
    alerts.map(({ alert }) => alert),
    names.filter((name) => name !== 'BidweirDown'),
  )
  t.same(rulesOf('test-bidweir-additional'), [{ record: 'a:b', expr: 'vector(1)' }])
  t.match(rulesOf('test-bidweir-thresholds')[0], {
    expr: 'vector(0.98)',
    labels: { threshold: 'sloAnswers', namespace: 'bids' },
  })
  for (const { alert, expr, annotations } of alerts) {
    t.equal(annotations['runbook_url'], `https://docs.example/alerts#${alert.toLowerCase()}`)
    const selectors = expr.match(/\b(?:bidweir[_:][\w:]+|kube_\w+)(\{[^}]*\})?/g)!
    for (const selector of selectors) t.match(selector, /\{namespace="bids"[,}]/, alert)
    const without = expr.replaceAll(/\{namespace="bids",?/g, '{').replaceAll('{}', '')
    t.equal(without, rules.find((rule) => rule.alert === alert)!.expr)
  }
})

t.test('the thresholds of the chart are those of the rules file', async (t) => {
  const values = parse(readFileSync(join(chart, 'values.yaml'), 'utf8')) as {
    metrics: { prometheusRule: { thresholds: Record<string, number> } }
  }
  const inFile = groups[0]!.rules
    .filter(({ labels }) => labels['threshold'] !== undefined)
    .map(({ labels, expr }) => [labels['threshold'], Number(/^vector\((.+)\)$/.exec(expr)![1])])
  t.same(Object.entries(values.metrics.prometheusRule.thresholds), inFile)
})

t.test(
  'the rules of a release are about its namespace alone',
  { skip: needsHelm.skip || needsPromtool.skip },
  async (t) => {
    const { text } = template('--set', 'metrics.prometheusRule.enabled=true')
    const rule = manifests(text).find(({ kind }) => kind === 'PrometheusRule')!
    const folder = t.testdir({})
    writeFileSync(join(folder, 'rules.yaml'), stringify(rule.spec))
    const withoutDown = names.filter((name) => name !== 'BidweirDown')
    // another release is well, this one is gone; and the reverse
    const tests = [
      ...fired('bids', names, true),
      ...fired('other', withoutDown, false),
      group('down', inNamespace(cases.healthy, 'other'), { BidweirDown: true }),
    ]
    writeFileSync(
      join(folder, 'tests.yaml'),
      stringify({ rule_files: ['rules.yaml'], evaluation_interval: '1m', tests }),
    )
    const { ok, text: said } = promtool('test', 'rules', join(folder, 'tests.yaml'))
    t.ok(ok, said)
  },
)
