/** Releases of the chart on a node, each in a namespace of its own, and what is asked of them. */
import type { Test } from 'tap'
import { startLimit, until } from '../../support/until.ts'
import { type ControlPlane, restricted } from './control-plane.ts'

export interface Pod {
  metadata: { name: string; uid: string; deletionTimestamp?: string }
  status: { podIP: string; containerStatuses?: { restartCount: number; ready: boolean }[] }
}

/** Patient with a busy machine; the drain is short. */
const probe = { periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 600 }
export const common = [
  ...['--set', 'drain.graceSeconds=5,drain.timeoutSeconds=20,terminationGracePeriodSeconds=40'],
  ...['--set-json', `livenessProbe=${JSON.stringify(probe)}`],
  ...['--set-json', `readinessProbe=${JSON.stringify({ ...probe, failureThreshold: 3 })}`],
]

/** A release in a namespace of its own, in which Pod Security refuses what is not `restricted`. */
export async function place(node: ControlPlane, namespace: string) {
  const { api } = node
  await restricted(node, namespace)
  const apiPath = `/api/v1/namespaces/${namespace}`
  const run = (command: string, ...args: string[]) =>
    node.helm(command, 'bids', ...args, '--namespace', namespace, '--timeout', '10m')
  const all = async () => (await api('GET', `${apiPath}/pods`)).body.items as Pod[]
  const pods = async () => {
    const selector =
      'app.kubernetes.io/instance=bids,app.kubernetes.io/name=bidweir,pod-template-hash'
    return (await api('GET', `${apiPath}/pods?labelSelector=${selector}`)).body.items as Pod[]
  }
  /** Resolves when there are so many pods, all of them ready. */
  const settled = (count: number) =>
    until(
      async () => {
        const present = await pods()
        const ready = present.filter(({ status }) =>
          status.containerStatuses?.every((container) => container.ready),
        )
        return present.length === count && ready.length === count
      },
      { what: `${count} pods that are ready`, limit: startLimit },
    )
  const log = async (pod: string, container: string) =>
    (await api('GET', `${apiPath}/pods/${pod}/log?container=${container}&tailLines=40`)).body
  /** Why a release does not come up. */
  const story = async () => {
    const { body } = await api('GET', `${apiPath}/events`)
    const events = body.items.map(
      (event: { reason: string; message: string }) => `${event.reason}: ${event.message}`,
    )
    const logs = await Promise.all(
      (await pods()).map(({ metadata }) => log(metadata.name, 'bidweir')),
    )
    return [...events, ...logs.map((log) => JSON.stringify(log))].slice(-60).join('\n')
  }
  const helm = async (t: Test, command: string, ...args: string[]) => {
    const { ok, text, error } = await run(command, ...args)
    t.ok(ok, `helm ${command}`, { diagnostic: true })
    if (!ok) t.fail(`${error}\n${text}\n${await story()}`)
    t.notMatch(error, /PodSecurity/)
    return text
  }
  const url = async (service: string) => {
    const { body } = await api('GET', `${apiPath}/services/bids-bidweir-${service}`)
    const address = `http://${body.spec.clusterIP}:${body.spec.ports[0].port}`
    const isServed = async () => {
      await (await fetch(address)).body?.cancel()
      return true
    }
    // kube-proxy refuses connections to a Service until it has seen a pod that is ready, a moment after helm has.
    await until(() => isServed().catch(() => false), { what: address, limit: startLimit })
    return address
  }
  /** Bid requests that each pod has had. */
  const requests = async () =>
    Promise.all(
      (await pods()).map(async ({ status }) => {
        const text = await (await fetch(`http://${status.podIP}:8081/metrics`)).text()
        const counts = text.matchAll(/^bidweir_requests_total\{.*\} (\d+)$/gm)
        return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
      }),
    )
  /** Each pod's estimates of the chance of winning, as `admin` reads them. */
  const curves = async () => {
    const { body } = await api('GET', `${apiPath}/secrets/bids-bidweir-admin-password`)
    const password = Buffer.from(body.data['admin-password'], 'base64').toString()
    const fields = {
      client_id: 'public-client',
      grant_type: 'password',
      username: 'admin',
      password,
    }
    const realm = `${await url('admin')}/auth/realms/main/protocol/openid-connect`
    const login = await fetch(`${realm}/token`, {
      method: 'POST',
      body: new URLSearchParams(fields),
    })
    const { access_token } = (await login.json()) as { access_token: string }
    const headers = { authorization: `Bearer ${access_token}` }
    const query = 'ssp=demo&publisher=pub-1&domain=news.example&in=2&floor=0.5'
    return Promise.all(
      (await pods()).map(async ({ metadata, status }) => {
        const curve = `http://${status.podIP}:8081/api/svc/curve/?${query}`
        const response = await fetch(curve, { headers }).catch(async (error: Error) => {
          const restarts = status.containerStatuses?.map(({ restartCount }) => restartCount)
          const why = `${metadata.name}, restarts ${restarts}: ${error.cause ?? error}`
          throw new Error(`${why}\n${await story()}`)
        })
        const { points } = (await response.json()) as { points: { win: number }[] }
        return points.map(({ win }) => win)
      }),
    )
  }
  return { at: apiPath, run, helm, all, pods, settled, url, curves, requests }
}
