/** What serves metrics to the autoscaler: metrics-server, and Prometheus with prometheus-adapter, as processes of the node. */
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { freePort } from '../../support/postgres.ts'
import { startLimit, until } from '../../support/until.ts'
import { chart } from '../helm.ts'
import type { ControlPlane } from './control-plane.ts'
import { type Running, run } from './kubernetes.ts'
import { nodeAddress } from './node.ts'

const home = process.env['AUTOSCALING_HOME'] ?? '/nowhere'

/** What `t.test` takes as `skip`. */
export const autoscalingAbsent = ['metrics-server', 'adapter'].every((name) =>
  existsSync(join(home, name)),
)
  ? false
  : 'metrics-server or prometheus-adapter not found (AUTOSCALING_HOME, .ci/autoscaling builds them)'

interface Pod {
  metadata: { name: string; namespace: string }
  spec: { containers: { ports?: { containerPort: number }[] }[] }
  status: { podIP?: string }
}
const hasAdminPort = ({ ports = [] }: Pod['spec']['containers'][number]) =>
  ports.some(({ containerPort }) => containerPort === 8081)

/** The rule of the adapter that the README of the chart prints. */
function ruleOfReadme(): object[] {
  const [, block = ''] =
    /```yaml\n( *- seriesQuery: bidweir_requests_total[^`]*)```/.exec(
      readFileSync(join(chart, 'README.md'), 'utf8'),
    ) ?? []
  return parse(block) as object[]
}

/** The admin listeners of all pods, as Prometheus asks for its targets: that of Debian does not ask Kubernetes itself. */
async function serveTargets({ api }: ControlPlane) {
  const server = createServer((_request, response) => {
    const answer = api('GET', '/api/v1/pods').then(({ body }) => {
      const pods = (body.items as Pod[]).filter(
        ({ spec, status }) => status.podIP !== undefined && spec.containers.some(hasAdminPort),
      )
      const targets = pods.map(({ metadata: { name, namespace }, status }) => ({
        targets: [`${status.podIP}:8081`],
        labels: { namespace, pod: name },
      }))
      response.setHeader('Content-Type', 'application/json')
      response.end(JSON.stringify(targets))
    })
    // Prometheus keeps the targets that it has.
    answer.catch((error: Error) => response.writeHead(502).end(error.message))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, port: (server.address() as AddressInfo).port }
}

/** Makes the API server ask a process of the node for an API. */
async function aggregate({ api }: ControlPlane, name: string, port: number, served: string) {
  const apiPath = '/api/v1/namespaces/kube-system'
  await api('POST', `${apiPath}/services`, {
    metadata: { name },
    spec: { ports: [{ port: 443, targetPort: port }] },
  })
  await api('POST', `${apiPath}/endpoints`, {
    metadata: { name },
    subsets: [{ addresses: [{ ip: nodeAddress }], ports: [{ port }] }],
  })
  const [version, ...group] = served.split('.')
  await api('POST', '/apis/apiregistration.k8s.io/v1/apiservices', {
    metadata: { name: served },
    spec: {
      ...{ group: group.join('.'), version, insecureSkipTLSVerify: true },
      ...{ groupPriorityMinimum: 100, versionPriority: 100 },
      service: { name, namespace: 'kube-system' },
    },
  })
}

/** Resolves when the API server has reached the processes; rejects if one of them has ended. */
async function available({ api }: ControlPlane, running: readonly Running[], apis: string[]) {
  for (const item of apis)
    await until(
      async () => {
        const ended = running.find(({ child }) => child.exitCode !== null)
        if (ended !== undefined) throw new Error(`${ended.child.spawnfile} has ended`)
        const { body } = await api('GET', `/apis/apiregistration.k8s.io/v1/apiservices/${item}`)
        const conditions = (body.status?.conditions ?? []) as { type: string; status: string }[]
        return conditions.some(({ type, status }) => type === 'Available' && status === 'True')
      },
      { what: `the API ${item}`, limit: startLimit },
    )
}

/** Returns what ends all of it. */
export async function serveMetrics(plane: ControlPlane): Promise<() => void> {
  const { folder, kubeconfig } = plane
  const running: Running[] = []
  const start = (...args: Parameters<typeof run>) => running.push(run(...args))
  const access = ['authentication', 'authorization'].map(
    (kind) => `--${kind}-kubeconfig=${kubeconfig}`,
  )
  const serving = (name: string, port: number) => {
    mkdirSync(join(folder, name))
    return [`--secure-port=${port}`, `--cert-dir=${join(folder, name)}`, ...access]
  }

  const [prometheus, server, adapter] = [await freePort(), await freePort(), await freePort()]
  const targets = await serveTargets(plane)
  const url = `http://127.0.0.1:${targets.port}/`
  const config = {
    global: { scrape_interval: '5s' },
    scrape_configs: [{ job_name: 'bidweir', http_sd_configs: [{ url, refresh_interval: '5s' }] }],
  }
  writeFileSync(join(folder, 'prometheus.yaml'), stringify(config))
  start(folder, '/usr/bin/prometheus', [
    `--config.file=${join(folder, 'prometheus.yaml')}`,
    `--storage.tsdb.path=${join(folder, 'prometheus')}`,
    `--web.listen-address=127.0.0.1:${prometheus}`,
  ])
  start(folder, join(home, 'metrics-server'), [
    ...serving('metrics-server', server),
    ...[`--kubeconfig=${kubeconfig}`, '--kubelet-insecure-tls', '--metric-resolution=10s'],
    '--kubelet-request-timeout=5s',
    '--kubelet-preferred-address-types=InternalIP',
  ])
  writeFileSync(join(folder, 'adapter.yaml'), stringify({ rules: ruleOfReadme() }))
  start(folder, join(home, 'adapter'), [
    ...serving('adapter', adapter),
    ...[`--lister-kubeconfig=${kubeconfig}`, `--config=${join(folder, 'adapter.yaml')}`],
    ...[`--prometheus-url=http://127.0.0.1:${prometheus}`, '--metrics-relist-interval=10s'],
  ])
  const end = () => {
    targets.server.close()
    for (const { child } of running) child.kill('SIGKILL')
  }
  try {
    const [ofServer, ofAdapter] = ['v1beta1.metrics.k8s.io', 'v1beta2.custom.metrics.k8s.io']
    await aggregate(plane, 'metrics-server', server, ofServer)
    await aggregate(plane, 'adapter', adapter, ofAdapter)
    await available(plane, running, [ofServer, ofAdapter])
  } catch (error) {
    end()
    const logs = running.map(({ child, log }) => `${child.spawnfile}\n${log()}`)
    throw new Error(`${(error as Error).message}\n${logs.join('\n')}`)
  }
  return end
}
