import { cpSync, writeFileSync } from 'node:fs'
import t from 'tap'
import { chart, helm, type Manifest, manifests, needsHelm, template } from './helm.ts'

const supplier = 'config.suppliers[0].id=acme,config.suppliers[0].endpoints[0]=https://a.example/'
const pg = 'store.database.url=postgres://u@db/x'
const redis = 'store.redis.url=redis://cache'

/** Values that are refused, and what the message has to say. */
const refusals: readonly (readonly [title: string, set: string, message: RegExp])[] = [
  [
    'two replicas on SQLite',
    'replicaCount=2',
    /replicaCount: more than one replica needs PostgreSQL/,
  ],
  ['two replicas without Redis', `replicaCount=2,${pg}`, /replicaCount: .* needs Redis/],
  [
    'two replicas on one volume',
    `replicaCount=2,${pg},${redis},persistence.enabled=true`,
    /persistence\.enabled: one volume/,
  ],
  [
    'backups of a file that no other pod reaches',
    'backup.enabled=true',
    /backup\.enabled: needs persistence\.enabled, or PostgreSQL/,
  ],
  [
    'backups to a bucket and a claim',
    `backup.enabled=true,backup.s3.bucket=backups,backup.existingClaim=c,${pg}`,
    /backup\.s3\.bucket: excludes backup\.existingClaim/,
  ],
  [
    'a bucket with a wrong name',
    `backup.enabled=true,backup.s3.bucket=Wrong_Name,${pg}`,
    /backup\/s3\/bucket/,
  ],
  ['a claim whose name is no name', 'persistence.existingClaim=- a', /persistence\/existingClaim/],
  [
    'a secret whose name would be more than one line',
    'existingSecret=a\nkind: Pod',
    /existingSecret/,
  ],
  [
    'a service account with a name that is too long',
    `serviceAccount.name=${'a'.repeat(254)}`,
    /serviceAccount\/name/,
  ],
  [
    'pods killed while they drain',
    'terminationGracePeriodSeconds=45',
    /terminationGracePeriodSeconds: 45 must be more than drain\.timeoutSeconds \(45\)/,
  ],
  [
    'a grace longer than the drain',
    'drain.graceSeconds=45',
    /drain\.graceSeconds: 45 must be less/,
  ],
  [
    'a listener of one’s own',
    'config.proxy.listen=0.0.0.0:9',
    /config\.proxy\.listen: is set by the chart/,
  ],
  ['keys in the ConfigMap', 'config.opd.keys[0].id=1', /config\.opd\.keys: is set by the chart/],
  ['a store in the ConfigMap', 'config.store.redis=x', /config\.store: is set by the chart/],
  ['a state folder elsewhere', 'config.stateDir=/x', /config\.stateDir: is set by the chart/],
  [
    'a ConfigMap of suppliers twice',
    'suppliersFrom[0].name=a,suppliersFrom[1].name=a',
    /suppliersFrom: a is listed twice/,
  ],
  ['a key id twice', 'contextKeys[0].id=1,contextKeys[1].id=1', /contextKeys: id 1 is used twice/],
  [
    'a password and a Secret',
    'adminPassword=long-enough,existingSecret=b',
    /adminPassword: excludes existingSecret/,
  ],
  [
    'two sources of the database',
    `${pg},store.database.existingSecret=b`,
    /store\.database: url and existingSecret exclude/,
  ],
  [
    'a rolling update of one volume',
    'persistence.enabled=true,updateStrategy.type=RollingUpdate',
    /updateStrategy: a volume belongs to one pod/,
  ],
  [
    'a policy that lets nothing out but DNS',
    `networkPolicy.enabled=true,networkPolicy.egress.enabled=true,${supplier}`,
    /networkPolicy\.egress\.rules: name the stores and suppliers/,
  ],
  [
    'more hosts than one, but not the one',
    'ingress.enabled=true,ingress.admin.host=a.example,ingress.bids.extraHosts={b.example}',
    /ingress\.bids\.extraHosts: needs ingress\.bids\.host/,
  ],
  [
    'an ingress without a host',
    'ingress.enabled=true',
    /ingress\.enabled: needs ingress\.bids\.host/,
  ],
  ['a route without a host', 'httpRoute.enabled=true', /httpRoute\.enabled: needs hostnames/],
  [
    'a route without a gateway',
    'httpRoute.enabled=true,httpRoute.bids.hostnames={a.example}',
    /httpRoute\.bids: needs parentRefs/,
  ],
  [
    'autoscaling on SQLite',
    'autoscaling.enabled=true',
    /autoscaling\.enabled: .* needs PostgreSQL/,
  ],
  [
    'autoscaling by nothing',
    `autoscaling.enabled=true,autoscaling.cpu=,${pg},${redis}`,
    /autoscaling\.enabled: needs cpu/,
  ],
  [
    'fewer pods at most than at least',
    `autoscaling.enabled=true,autoscaling.minReplicas=11,${pg},${redis}`,
    /autoscaling\.minReplicas: 11 must not be more/,
  ],
  [
    'a policy that keeps Prometheus out',
    'networkPolicy.enabled=true,metrics.serviceMonitor.enabled=true',
    /networkPolicy\.metricsFrom: name Prometheus/,
  ],
  [
    'a policy that keeps the ingress controller out',
    'networkPolicy.enabled=true,ingress.enabled=true,ingress.admin.host=a.example',
    /networkPolicy\.adminFrom: name the ingress controller/,
  ],
  [
    'a claim that would be ignored',
    'persistence.existingClaim=mine',
    /persistence\.existingClaim: needs persistence\.enabled/,
  ],
  [
    'a host of PostgreSQL without its password',
    'store.database.host=db',
    /store\.database\.host: needs existingSecret/,
  ],
  [
    'a supplier in the list and in the map',
    `${supplier},suppliers.acme.timeout=1s`,
    /suppliers: id acme is used twice/,
  ],
  [
    'a label of the selector',
    'podLabels.app\\.kubernetes\\.io/name=x',
    /app\.kubernetes\.io\/name is the chart's/,
  ],
  ['an unknown key of a supplier', `${supplier},config.suppliers[0].timout=5s`, /'timout'/],
  ['an unknown key of a supplier in the map', 'suppliers.acme.timout=5s', /'timout'/],
  ['a key of opd with a typing error', 'config.opd.atributionWindow=5m', /'atributionWindow'/],
  ['a duration without a number', 'suppliers.acme.timeout=fast', /suppliers\/acme\/timeout.*fast/s],
  [
    'two sources of tokens',
    'config.admin.auth.issuer=https://a.example,config.admin.auth.embedded.realm=x',
    /config\/admin\/auth/,
  ],
  ['an unknown value', 'replicas=2', /additional properties 'replicas' not allowed/i],
  [
    'an unknown key of config',
    'config.supplers=2',
    /additional properties 'supplers' not allowed/i,
  ],
  [
    'a count that is text',
    'replicaCount=two',
    /replicaCount.*\n?.*want integer|replicaCount: Invalid type/i,
  ],
  [
    'endpoints that are no list',
    `${supplier.split(',')[0]},config.suppliers[0].endpoints=x`,
    /endpoints/,
  ],
  ['a supplier id that no path can carry', supplier.replace('acme', 'A/B'), /pattern/],
  ['a secret that is no key', 'contextKeys[0].id=1,contextKeys[0].secret=short', /pattern/],
  ['a database that is not PostgreSQL', 'store.database.url=mysql://x', /pattern/],
  ['an unknown scheme of Redis', 'store.redis.url=redis+ring://x', /pattern/],
  ['an unknown service type', 'service.proxy.type=Headless', /ClusterIP/],
]

for (const [title, set, message] of refusals)
  t.test(`refused: ${title}`, needsHelm, async (t) => {
    const { ok, error } = template('--set', set)
    t.notOk(ok)
    t.match(error, message)
  })

t.test('all faults are reported at once', needsHelm, async (t) => {
  const { error } = template('--set', 'replicaCount=2,ingress.enabled=true')
  t.match(error, /PostgreSQL[\s\S]*Redis[\s\S]*ingress\.bids\.host/)
})

interface PodSpec {
  terminationGracePeriodSeconds: number
  automountServiceAccountToken: boolean
  containers: { name: string; securityContext: object; resources: object }[]
  volumes: { name: string; emptyDir?: object }[]
}
const deployment = (all: Manifest[]) =>
  all.find(({ kind }) => kind === 'Deployment')!.spec as { template: { spec: PodSpec } }

t.test('every container is hardened and has its resources', needsHelm, async (t) => {
  const all = manifests(template().text)
  const test = all.find(({ kind }) => kind === 'Pod')!.spec as PodSpec
  const pod = deployment(all).template.spec
  t.equal(pod.automountServiceAccountToken, false)
  t.same(
    pod.containers.map(({ name }) => name),
    ['bidweir', 'demo-supplier'],
  )
  for (const { name, securityContext, resources } of [...pod.containers, ...test.containers]) {
    t.match(
      securityContext,
      {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        runAsNonRoot: true,
        runAsUser: 65532,
        capabilities: { drop: ['ALL'] },
        seccompProfile: { type: 'RuntimeDefault' },
      },
      name,
    )
    t.match(resources, { requests: { memory: String }, limits: { memory: String } }, name)
  }
})

t.test('what is generated is a key and a password of their own each time', needsHelm, async (t) => {
  const [first, second] = [0, 1].map(() => {
    const secrets = manifests(template().text).filter(({ kind }) => kind === 'Secret')
    return Object.assign({}, ...secrets.map(({ data }) => data)) as Record<string, string>
  }) as [Record<string, string>, Record<string, string>]
  t.match(Buffer.from(first['context-key-1']!, 'base64').toString(), /^[A-Za-z0-9_-]{43}$/)
  t.not(first['context-key-1'], second['context-key-1'])
  t.not(first['admin-password'], second['admin-password'])
})

t.test('with a supplier of one’s own no demo supplier runs', needsHelm, async (t) => {
  const { text } = template('--set', supplier)
  t.same(
    deployment(manifests(text)).template.spec.containers.map(({ name }) => name),
    ['bidweir'],
  )
  t.notMatch(text, /demo/i)
})

t.test('the notes warn without a volume and show a token and a bid', needsHelm, async (t) => {
  // `helm template` leaves the notes out and a dry run wants a cluster: a copy of the chart shows them.
  const copy = t.testdir({})
  cpSync(chart, copy, { recursive: true })
  cpSync(`${chart}/templates/NOTES.txt`, `${copy}/notes.txt`)
  const shown =
    'kind: ConfigMap\nmetadata: {name: notes}\ndata: {notes: {{ tpl (.Files.Get "notes.txt") . | toJson }}}'
  writeFileSync(`${copy}/templates/notes.yaml`, shown)
  const notes = (...args: string[]) => {
    const { text, error } = helm('template', 'test', copy, '--kube-version', '1.34.0', ...args)
    t.equal(error, '')
    return manifests(text).find(({ metadata }) => metadata.name === 'notes')!.data!['notes']!
  }
  const plain = notes()
  t.match(plain, /WARNING: persistence\.enabled/)
  t.match(plain, /curl -s .*grant_type=password[\s\S]*curl -si http:.*\/bid\/demo/)
  t.match(plain, /Not monitored/)
  t.notMatch(notes('--set', 'persistence.enabled=true'), /WARNING/)
  const output = notes('--set', `suppliers.bolt.opd.enabled=true,${supplier}`)
  t.match(output, /curl -si http:.*\/bid\/acme/)
  const shared = notes('--set', `${pg},${redis},config.proxy.tls.cert=c,config.proxy.tls.key=k`)
  t.match(shared, /Snapshots of the model end with their pod/)
  t.match(shared, /curl -sik https:.*\/bid\/demo/)
  t.notMatch(shared, /WARNING/)
})

/** The paths of the places where rendered objects have a text. */
function placesOf(text: string, value: unknown, path = ''): string[] {
  if (typeof value === 'string') return value === text ? [path] : []
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([key, inner]) => placesOf(text, inner, `${path}/${key}`))
}

// YAML reads them as numbers, booleans, null, or a timestamp.
for (const text of ['123', '1e3', '0x1', 'true', 'null', 'off', '2026-01-01'])
  t.test(`a name that is ${text} is rendered as text`, needsHelm, async (t) => {
    const rendered = (name: string) => {
      const { ok, text, error } = template(
        ...['--set-string', `caBundle.existingConfigMap=${name},caBundle.key=${name}`],
        ...['--set-string', `existingSecret=${name},serviceAccount.name=${name}`],
        ...['--set-string', `store.database.existingSecret=${name},store.database.key=${name}`],
        ...['--set-string', `ingress.className=${name},ingress.bids.host=a.example`],
        ...['--set-string', `suppliersFrom[0].name=${name},priorityClassName=${name}`],
        ...['--set-string', `metrics.serviceMonitor.namespace=${name},nameOverride=${name}`],
        ...['--set-string', `metrics.prometheusRule.namespace=${name}`],
        ...['--set-string', `metrics.dashboards.namespace=${name},backup.storageClass=${name}`],
        ...['--set-string', `persistence.storageClass=${name},fullnameOverride=bids`],
        ...['--set-string', `autoscaling.requestsMetric=${name},commonLabels.team=${name}`],
        ...['--set', 'ingress.enabled=true,backup.enabled=true,metrics.dashboards.enabled=true'],
        ...['--set', 'metrics.serviceMonitor.enabled=true,metrics.prometheusRule.enabled=true'],
        ...['--set', 'persistence.enabled=true'],
      )
      t.equal(error, '')
      return ok ? placesOf(name, manifests(text)) : []
    }
    const places = rendered('plain')
    t.ok(places.length > 40, `${places.length} places`)
    t.same(rendered(text), places)
  })

t.test(
  'a release and a namespace may have names that YAML reads otherwise',
  needsHelm,
  async (t) => {
    const text = (release: string, namespace: string) =>
      helm(
        ...['template', release, chart, '--namespace', namespace, '--set', 'fullnameOverride=bids'],
        ...['--set', 'metrics.serviceMonitor.enabled=true', '--kube-version', '1.34.0'],
        ...['--api-versions', 'monitoring.coreos.com/v1'],
      ).text
    const plain = manifests(text('plain', 'space'))
    const places = ['plain', 'space'].map((name) => placesOf(name, plain))
    const odd = manifests(text('1e3', '123'))
    t.ok(places.every(({ length }) => length > 0))
    t.same(
      ['1e3', '123'].map((name) => placesOf(name, odd)),
      places,
    )
  },
)

t.test('refused: a name that a Service cannot have', needsHelm, async (t) => {
  const named = (release: string, ...args: string[]) =>
    helm('template', release, chart, '--kube-version', '1.34.0', ...args)
  t.match(named('1e3').error, /fullnameOverride: the objects would be named "1e3-bidweir"/)
  t.match(named('a.b').error, /fullnameOverride: the objects would be named "a\.b-bidweir"/)
  t.match(named('test', '--set', 'fullnameOverride=Bids').error, /fullnameOverride: .*"Bids"/)
  t.match(named('test', '--set', 'nameOverride=a b').error, /nameOverride: "a b"/)
  const { ok, text } = named('1e3', '--set-string', 'fullnameOverride=true')
  t.ok(ok)
  t.ok(manifests(text).every(({ metadata }) => typeof metadata.name === 'string'))
})
