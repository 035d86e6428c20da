/** A real API server accepts every field that the chart renders, and reports no warning under Pod Security `restricted`. */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startLimit, until } from '../../support/until.ts'
import {
  type ControlPlane,
  restricted,
  startControlPlane,
  unchecked,
} from '../cluster/control-plane.ts'
import { kubernetesAbsent } from '../cluster/kubernetes.ts'
import { chart, type Manifest, manifests, needsHelm } from '../helm.ts'
import { operations } from './operations.ts'

const skip = needsHelm.skip || kubernetesAbsent
const values = (name: string) => ['--values', join(chart, `ci/${name}-values.yaml`)]
const cases = readdirSync(join(chart, 'ci'))
  .filter((file) => file.endsWith('-values.yaml'))
  .map((file) => file.replace('-values.yaml', ''))

interface Templated {
  spec: { template: { metadata: object; spec: object } }
}
/** Pods that a controller would make of an object. */
const podsOf = (object: Manifest): Manifest[] => {
  if (!['Deployment', 'Job', 'CronJob'].includes(object.kind)) return []
  const { spec } = object as unknown as Templated & { spec: { jobTemplate?: Templated } }
  const { metadata, spec: pod } = (spec.jobTemplate?.spec ?? spec).template
  const name = object.metadata.name
  return [{ apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name }, spec: pod } as Manifest]
}

/** Offers all that the chart renders, hooks and pods as well. */
async function offerAll(t: Test, plane: ControlPlane, args: string[]) {
  const { text, ok, error } = await plane.helm(
    ...['template', 'test', chart, '--namespace', 'bids', '--validate', ...unchecked, ...args],
  )
  t.ok(ok, error)
  const objects = manifests(text).flatMap((object) => [object, ...podsOf(object)])
  t.ok(objects.length > 8)
  interface Answer {
    what: string
    object: Manifest
    status: number
    warnings: string[]
    message: string
  }
  const answers: Answer[] = []
  for (const object of objects) {
    const namespace = (object.metadata as { namespace?: string }).namespace ?? 'bids'
    const { status, warnings, body } = await plane.offer(object, namespace)
    const what = `${object.kind} ${object.metadata.name}`
    answers.push({ what, object, status, warnings, message: body.message ?? '' })
  }
  return answers
}

t.test('the chart on an API server', { skip }, async (t) => {
  // Accounts of pods are made by a controller, and none runs.
  const plane = await startControlPlane('127.0.0.1', () => [
    '--disable-admission-plugins=ServiceAccount',
  ])
  t.teardown(() => plane.close())
  await restricted(plane, 'bids')
  const install = (name: string, ...args: string[]) =>
    plane.helm('install', name, chart, '--namespace', 'bids', '--no-hooks', ...args)

  await t.test('without the kinds that it needs it says what is missing', async (t) => {
    const missing = {
      production: /metrics\.serviceMonitor\.enabled: the cluster does not serve monitoring/,
      autoscaled: /httpRoute\.enabled: the cluster does not serve gateway\.networking/,
      keda: /autoscaling\.keda\.enabled: the cluster does not serve keda\.sh/,
    }
    for (const [name, message] of Object.entries(missing)) {
      const { ok, error } = await install('without', ...values(name))
      t.notOk(ok, name)
      t.match(error, message)
    }
    const plain = await install('plain')
    t.ok(plain.ok, plain.error)
    t.notMatch(plain.error, /warning/i)
  })

  await plane.defineMore()

  for (const name of cases)
    t.test(`${name}: every object and pod is accepted without a warning`, async (t) => {
      for (const { what, status, warnings, message } of await offerAll(t, plane, values(name))) {
        t.equal(status, 201, `${what} ${message}`)
        t.same(warnings, [], what)
      }
    })

  t.test('values of every kind make objects that the server knows', async (t) => {
    const sets = [
      'metrics.dashboards.enabled=true,networkPolicy.enabled=true,persistence.enabled=true',
      'service.proxy.type=LoadBalancer,service.proxy.externalTrafficPolicy=Local',
      'service.proxy.loadBalancerSourceRanges={10.0.0.0/8},service.admin.ipFamilyPolicy=PreferDualStack',
      'dnsConfig.options[0].name=ndots,hostAliases[0].ip=10.0.0.1,hostAliases[0].hostnames={a.example}',
      'priorityClassName=,minReadySeconds=3,updateStrategy.type=Recreate,podLabels.team=ads',
      'ingress.enabled=true,ingress.bids.host=b.example,ingress.notices.host=n.example',
      'ingress.bids.extraHosts={c.example,d.example},config.proxy.tls.cert=c,config.proxy.tls.key=k',
      'networkPolicy.egress.enabled=true,networkPolicy.egress.rules[0].ports[0].port=443',
      'metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.sampleLimit=9000',
      'metrics.serviceMonitor.scrapeTimeout=5s,metrics.serviceMonitor.honorLabels=true',
      'metrics.prometheusRule.enabled=true,networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b',
    ]
    const args = sets.flatMap((set) => ['--set', set])
    for (const { what, status, warnings, message } of await offerAll(t, plane, args)) {
      t.equal(status, 201, `${what} ${message}`)
      t.same(warnings, [], what)
    }
  })

  t.test('an unknown field and a pod that is not restricted are seen', async (t) => {
    const loose = ['--set', 'securityContext.allowPrivilegeEscalation=true']
    const answers = await offerAll(t, plane, loose)
    const deployment = answers.find(({ what }) => what.startsWith('Deployment'))!
    t.match(deployment.warnings.join(), /would violate PodSecurity/)
    t.match(
      answers.filter(({ what }) => what.startsWith('Pod ')).map(({ status }) => status),
      [403, 403, 403],
    )
    const wrong = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, dat: {} }
    t.equal((await plane.offer(wrong as Manifest, 'bids')).status, 400)
  })

  t.test('operations of helm', (t) => operations(t, plane))

  // last: from here on the server is one of OpenShift
  t.test('without user and group, which OpenShift assigns, pods are restricted', async (t) => {
    const group = 'security.openshift.io'
    const names = { kind: 'SecurityContextConstraints', plural: 'securitycontextconstraints' }
    const schema = { openAPIV3Schema: { type: 'object' } }
    await plane.api('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
      metadata: { name: `${names.plural}.${group}` },
      spec: {
        ...{ group, names, scope: 'Cluster' },
        versions: [{ name: 'v1', served: true, storage: true, schema }],
      },
    })
    const served = async () => (await plane.api('GET', `/apis/${group}/v1`)).status === 200
    await until(served, { limit: startLimit })
    const egress = 'networkPolicy.enabled=true,networkPolicy.egress.enabled=true'
    const answers = await offerAll(t, plane, ['--set', egress])
    t.match(JSON.stringify(answers), /"port":5353/)
    for (const { what, object, status, warnings, message } of answers) {
      t.equal(status, 201, `${what} ${message}`)
      t.same(warnings, [], what)
      t.notMatch(JSON.stringify(object), /runAsUser|runAsGroup|fsGroup"/, what)
    }
  })
})
