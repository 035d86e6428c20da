/** What values change in the rendered objects: restarts, pods, Services, policies. The golden files cover the rest. */
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { restartKeys } from '../../service/config/restart.ts'
import { newFolder } from '../support/process.ts'
import { chart, helm, type Manifest, manifests, needsHelm, template } from './helm.ts'

const pg = 'store.database.url=postgres://u@db/x'
const redis = 'store.redis.url=redis://cache'
const supplier = 'suppliers.acme.endpoints[0]=https://a.example/'

const made = new Map<string, Manifest[]>()
/** Each set of values is rendered once. */
function rendered(...sets: string[]): Manifest[] {
  const known = made.get(sets.join())
  if (known !== undefined) return known
  const { ok, text, error } = template(...sets.flatMap((set) => ['--set', set]))
  if (!ok) throw new Error(error)
  const all = manifests(text)
  made.set(sets.join(), all)
  return all
}
interface Metadata {
  labels: Record<string, string>
  annotations: Record<string, string>
}
interface PodSpec {
  imagePullSecrets: object[]
  nodeSelector: object
  tolerations: object[]
  containers: { image: string; resources: { requests: { cpu: string } } }[]
}
interface Workload {
  template: { metadata: Metadata; spec: PodSpec }
}
const kindOf = <Spec>(kind: string, ...sets: string[]) =>
  rendered(...sets).filter((manifest) => manifest.kind === kind) as unknown as {
    metadata: Metadata
    spec: Spec
  }[]
const podOf = (...sets: string[]) => kindOf<Workload>('Deployment', ...sets)[0]!.spec.template

t.test('a change that needs a restart restarts the pods, and no other', needsHelm, async (t) => {
  const checksum = (...sets: string[]) =>
    podOf(supplier, ...sets).metadata.annotations['checksum/restart']
  const before = checksum()
  t.equal(checksum('suppliers.acme.timeout=90ms'), before)
  t.equal(checksum('config.opd.contextTtl=24h'), before)
  t.not(checksum('suppliers.acme.timeout=90ms', 'restartOnConfigChange=true'), before)
  const changes: Record<string, string> = {
    location: 'config.location=eu-west',
    'proxy.tls': 'config.proxy.tls.cert=c,config.proxy.tls.key=k',
    'proxy.fastLane': 'config.proxy.fastLane=false',
    'proxy.workers': 'config.proxy.workers=2',
    node: 'config.node.role=serve',
    events: 'config.events.kafka.brokers={kafka:9092}',
    'admin.auth': 'config.admin.auth.embedded.realm=other',
    'admin.impressions': 'config.admin.impressions.auth=none',
    store: 'store.retentionDays=30',
    'opd.attributionWindow': 'config.opd.attributionWindow=1h',
    'opd.decisionLog': 'config.opd.decisionLog.path=/data/log',
    agent: 'config.agent.timeout=5ms',
    models: 'config.models.from=/models/model',
  }
  // the chart sets these, always to the same
  const fixed = ['stateDir', 'proxy.listen', 'admin.listen', 'notices']
  for (const { key } of restartKeys.filter(({ key }) => !fixed.includes(key))) {
    if (changes[key] === undefined) t.fail(`no change of ${key} is known here`)
    else t.not(checksum(changes[key]), before, key)
  }
  t.equal(checksum('config.log.level=debug'), before, 'the level of the log is reloaded')
  t.equal(
    checksum('config.proxy.tls.cert=c,config.proxy.tls.key=k'),
    checksum('config.proxy.tls.cert=d,config.proxy.tls.key=l'),
    'a certificate is reloaded',
  )
  t.not(checksum(pg), checksum(pg.replace('u@', 'u:new@')), 'a password of the database')
})

interface Variable {
  name: string
  value?: string
}

t.test('with tracing, spans name namespace, pod and node', needsHelm, async (t) => {
  const envOf = (...sets: string[]) => {
    const [container] = podOf(...sets).spec.containers as object[] as { env?: Variable[] }[]
    return container?.env?.find(({ name }) => name === 'OTEL_RESOURCE_ATTRIBUTES')?.value
  }
  t.equal(envOf(), undefined)
  t.equal(
    envOf('config.tracing.endpoint=http://collector:4318'),
    'k8s.namespace.name=$(BIDWEIR_NAMESPACE),k8s.pod.name=$(BIDWEIR_POD),k8s.node.name=$(BIDWEIR_NODE)',
  )
})

t.test('a rolling update fits a node of two cores', needsHelm, async (t) => {
  const requests = podOf().spec.containers.map(({ resources }) =>
    Number.parseInt(resources.requests.cpu, 10),
  )
  const millis = requests.reduce((sum, request) => sum + request, 0)
  t.ok(2 * millis < 1000, 'two pods beside what a cluster itself runs')
})

t.test('a first install with autoscaling begins with minReplicas', needsHelm, async (t) => {
  t.match(kindOf('Deployment')[0]!.spec, { replicas: 1 })
  const scaled = ['autoscaling.enabled=true', pg, redis]
  t.match(kindOf('Deployment', ...scaled)[0]!.spec, { replicas: 2 })
  t.match(kindOf('Deployment', ...scaled, 'autoscaling.minReplicas=4')[0]!.spec, { replicas: 4 })
  const [byCpu] = kindOf<{ metrics: object[] }>('HorizontalPodAutoscaler', ...scaled)
  t.match(byCpu!.spec, { scaleTargetRef: { name: 'test-bidweir' }, minReplicas: 2 })
  t.equal(byCpu!.spec.metrics.length, 1)
  const [byRequests] = kindOf<{ metrics: object[] }>(
    'HorizontalPodAutoscaler',
    ...scaled,
    'autoscaling.cpu=,autoscaling.requestsPerSecond=900',
  )
  const target = { type: 'AverageValue', averageValue: '900' }
  t.match(byRequests!.spec.metrics, [{ type: 'Pods', pods: { target } }])
  t.equal(kindOf('PodDisruptionBudget', ...scaled).length, 1)
})

t.test('pods of hooks have pull secrets and the place of the others', needsHelm, async (t) => {
  const sets = [
    'imagePullSecrets[0].name=one,global.imagePullSecrets={two},global.imageRegistry=r.example',
    'tolerations[0].operator=Exists,nodeSelector.pool=ads',
  ]
  const test = kindOf<PodSpec>('Pod', ...sets)[0]!
  const job = kindOf<Workload>('Job', ...sets)[0]!
  for (const { spec } of [podOf(...sets), test, job.spec.template]) {
    t.same(spec.imagePullSecrets, [{ name: 'one' }, { name: 'two' }])
    t.same(spec.nodeSelector, { pool: 'ads' })
    t.same(spec.tolerations, [{ operator: 'Exists' }])
    t.equal(spec.containers[0]!.image, 'r.example/bidweir:0.1.0')
  }
  t.equal(test.metadata.annotations['helm.sh/hook-delete-policy'], 'before-hook-creation')
})

t.test('OpenShift assigns user and group, and has its own port of DNS', needsHelm, async (t) => {
  const egress = 'networkPolicy.enabled=true,networkPolicy.egress.enabled=true'
  const { text } = template('--api-versions', 'security.openshift.io/v1', '--set', egress)
  t.match(text, /port: 5353/)
  t.notMatch(template('--set', egress).text, /port: 5353/)
  t.notMatch(text, /runAsUser|runAsGroup|fsGroup:/)
  t.match(text, /runAsNonRoot: true/)
  t.notMatch(template('--set', 'podSecurityContext.fsGroup=null').text, /fsGroup:/)
})

t.test('labels take any version, and no version restarts pods', needsHelm, async (t) => {
  const copy = t.testdir({})
  cpSync(chart, copy, { recursive: true })
  const file = join(copy, 'Chart.yaml')
  writeFileSync(
    file,
    readFileSync(file, 'utf8').replace('version: 0.1.0', 'version: 0.2.0+build.1'),
  )
  const { text, error } = helm('template', 'test', copy, '--set', 'image.tag=2.0.0')
  t.equal(error, '')
  const all = manifests(text) as unknown as { kind: string; metadata: Metadata; spec: Workload }[]
  const { metadata, spec } = all.find(({ kind }) => kind === 'Deployment')!
  t.equal(metadata.labels['helm.sh/chart'], 'bidweir-0.2.0_build.1')
  t.equal(metadata.labels['app.kubernetes.io/version'], '2.0.0')
  t.same(Object.keys(spec.template.metadata.labels), [
    'app.kubernetes.io/instance',
    'app.kubernetes.io/name',
  ])
})

t.test('a policy lets in who is named, the hooks, and nobody else', needsHelm, async (t) => {
  const peers = (...sets: string[]) => {
    interface Rule {
      ports: [{ port: string }]
      from?: object[]
    }
    const [policy] = kindOf<{ ingress: Rule[] }>(
      'NetworkPolicy',
      'networkPolicy.enabled=true',
      ...sets,
    )
    return Object.fromEntries(policy!.spec.ingress.map(({ ports, from }) => [ports[0].port, from]))
  }
  const hook = { podSelector: { matchLabels: { 'app.kubernetes.io/component': 'hook' } } }
  const other = { namespaceSelector: { matchLabels: { a: 'b' } } }
  const named = (field: string) => `networkPolicy.${field}[0].namespaceSelector.matchLabels.a=b`
  t.match(peers(), { proxy: undefined, notices: undefined, admin: [{ podSelector: {} }, hook] })
  for (const field of ['proxy', 'notices', 'admin']) {
    const from = peers(named(`${field}From`))[field]
    t.equal(from!.length, 2)
    t.match(from, [other, hook])
  }
  t.match(peers(named('metricsFrom'))['admin'], [other, { podSelector: {} }, hook])
})

t.test('a port of the machine is taken by one pod after the other', needsHelm, async (t) => {
  const { spec } = kindOf<Workload & { strategy: { rollingUpdate: object } }>(
    'Deployment',
    ...[supplier, 'hostPort=8080'],
  )[0]!
  t.match(spec.template.spec.containers[0], { ports: [{ name: 'proxy', hostPort: 8080 }] })
  t.same(spec.strategy.rollingUpdate, { maxUnavailable: 1, maxSurge: 0 })
})

t.test('native histograms are asked for beside the buckets of dashboards', needsHelm, async (t) => {
  const set = 'metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.nativeHistograms=true'
  const [monitor] = kindOf<{ scrapeProtocols: string[] }>('ServiceMonitor', set)
  t.equal(monitor!.spec.scrapeProtocols[0], 'PrometheusProto')
  t.match(monitor!.spec, {
    scrapeClassicHistograms: true,
    endpoints: [
      { relabelings: [{ targetLabel: '__scrape_native_histograms__', replacement: 'true' }] },
    ],
  })
  const [plain] = kindOf<object>('ServiceMonitor', 'metrics.serviceMonitor.enabled=true')
  t.notMatch(JSON.stringify(plain), /scrapeProtocols|native/)
})

t.test('a PodMonitor takes the place of the ServiceMonitor', needsHelm, async (t) => {
  const set = 'metrics.podMonitor.enabled=true,metrics.serviceMonitor.interval=7s'
  const [monitor] = kindOf<{ podMetricsEndpoints: object[]; selector: { matchLabels: object } }>(
    'PodMonitor',
    set,
  )
  t.match(monitor!.spec.podMetricsEndpoints, [
    {
      ...{ port: 'admin', path: '/metrics', interval: '7s' },
      relabelings: [{ targetLabel: 'service', replacement: 'test-bidweir-admin' }],
    },
  ])
  t.notOk('app.kubernetes.io/component' in monitor!.spec.selector.matchLabels, 'that of Services')
  t.same(kindOf('ServiceMonitor', set), [])
  const both = helm(
    'template',
    'test',
    chart,
    '--set',
    `${set},metrics.serviceMonitor.enabled=true`,
  )
  t.match(both.error, /metrics\.podMonitor\.enabled: excludes/)
})

t.test(
  'the preflight runs before rollbacks, and a wrong configuration once',
  needsHelm,
  async (t) => {
    const [job] = kindOf<{ podFailurePolicy: { rules: object[] } }>('Job')
    t.match(job!.metadata.annotations, { 'helm.sh/hook': 'pre-install,pre-upgrade,pre-rollback' })
    t.match(job!.spec.podFailurePolicy.rules, [
      { action: 'FailJob', onExitCodes: { values: [78] } },
    ])
  },
)

t.test('without the API of an object the refusal says so', needsHelm, async (t) => {
  const { error } = helm('template', 'test', chart, '--set', 'metrics.serviceMonitor.enabled=true')
  t.match(error, /metrics\.serviceMonitor\.enabled: the cluster does not serve monitoring/)
})

t.test(
  'a supplier of one values file changes in another, and goes by null',
  needsHelm,
  async (t) => {
    const config = (...sets: string[]) =>
      rendered(supplier, 'suppliers.bolt.endpoints[0]=https://b.example/', ...sets).find(
        ({ kind }) => kind === 'ConfigMap',
      )!.data!['bidweir.yaml']!
    t.match(config('suppliers.acme.timeout=90ms'), /id: acme\n {2}timeout: 90ms[\s\S]*id: bolt/)
    t.notMatch(config('suppliers.acme=null'), /acme/)
  },
)

t.test('an Ingress has all of its hosts', needsHelm, async (t) => {
  const [bids] = kindOf<{ rules: { host: string; http: { paths: object[] } }[] }>(
    'Ingress',
    'ingress.enabled=true,ingress.bids.host=a.example,ingress.bids.extraHosts={b.example,c.example}',
  )
  const { rules } = bids!.spec
  t.same(
    rules.map(({ host }) => host),
    ['a.example', 'b.example', 'c.example'],
  )
  for (const { http } of rules) t.equal(http.paths.length, 2)
})

t.test('a listener with a certificate is reached by https', needsHelm, async (t) => {
  const tls = 'config.proxy.tls.cert=/tls/tls.crt,config.proxy.tls.key=/tls/tls.key'
  const protocols = (...sets: string[]) =>
    kindOf<{ ports: [{ name: string; appProtocol: string }] }>('Service', ...sets).map(
      ({ spec }) => spec.ports[0].appProtocol,
    )
  t.same(protocols(tls).sort(), ['http', 'http', 'https'])
  t.same(protocols(), ['http', 'http', 'http'])
  const scriptOf = (...sets: string[]) => JSON.stringify(kindOf('Pod', ...sets)[0])
  t.match(scriptOf(tls), /https:\/\/test-bidweir-proxy/)
  t.match(scriptOf(), /http:\/\/test-bidweir-proxy/)
})

t.test('the hook is one container, whose log helm prints if it fails', needsHelm, async (t) => {
  interface Job {
    template: { spec: { initContainers?: object[]; containers: { command: string[] }[] } }
  }
  const scripts = [kindOf<Job>('Job')[0]!, kindOf<Job>('Job', pg)[0]!].map(({ metadata, spec }) => {
    t.equal(metadata.annotations['helm.sh/hook-output-log-policy'], 'hook-failed')
    t.equal(spec.template.spec.initContainers, undefined)
    t.equal(spec.template.spec.containers.length, 1)
    return spec.template.spec.containers[0]!.command.at(-1)
  })
  const file = '--config /etc/bidweir/bidweir.yaml'
  const check = `bidweir check ${file} || exit 78`
  t.same(scripts, [check, `${check}; bidweir migrate ${file}`])
})

t.test('Redis may be a server, Sentinels or a Cluster', needsHelm, async (t) => {
  for (const url of [
    'redis+sentinel://:p@a:1\\,b:2/main',
    'rediss+cluster://a:1\\,b:2',
    redis.slice(16),
  ]) {
    const secret = kindOf('Secret', `store.redis.url=${url}`).find(({ metadata }) =>
      JSON.stringify(metadata).includes('-stores'),
    )
    t.ok(secret, url)
  }
})

/** Megabytes that helm allocates while it renders: unlike its time, they do not depend on the machine. */
function allocated(values: object): number {
  const file = join(newFolder(), 'values.json')
  writeFileSync(file, JSON.stringify(values))
  const { status, stderr } = spawnSync('helm', ['template', 'test', chart, '--values', file], {
    ...{ encoding: 'utf8', maxBuffer: 1 << 28 },
    env: { ...process.env, GODEBUG: 'gctrace=1', GOGC: '100' },
  })
  if (status !== 0) throw new Error(stderr)
  let [sum, live] = [0, 0]
  // Heap at the start, at the end, and live after each collection.
  for (const [, , end, left] of stderr.matchAll(/(\d+)->(\d+)->(\d+) MB/g)) {
    sum += Number(end) - live
    live = Number(left)
  }
  return sum
}

t.test('rendering takes memory in proportion to the suppliers', needsHelm, async (t) => {
  const block = (n: number) => ({ endpoints: [`https://bid${n}.example/openrtb`] })
  const ids = (count: number) => Array.from({ length: count }, (_, n) => `s${n}`)
  const kinds: [string, (count: number) => object][] = [
    [
      'a list',
      (count) => ({ config: { suppliers: ids(count).map((id, n) => ({ id, ...block(n) })) } }),
    ],
    [
      'a map',
      (count) => ({ suppliers: Object.fromEntries(ids(count).map((id, n) => [id, block(n)])) }),
    ],
  ]
  for (const [name, valuesOf] of kinds) {
    const [some, twice, fourTimes] = [400, 800, 1600].map((count) => allocated(valuesOf(count)))
    // 2 if each supplier costs the same, 4 if the cost of each grows with their number.
    const growth = (fourTimes! - twice!) / (twice! - some!)
    t.ok(growth < 2.6, `${name}: ${some}, ${twice} and ${fourTimes} MB`)
  }
})
