/** The image without the chart. */
import type { Test } from 'tap'
import { programVersion } from '../../../admin/http/version.ts'
import { until } from '../../support/until.ts'
import type { ControlPlane } from '../cluster/control-plane.ts'
import { place } from '../cluster/release.ts'

/** Starts the image as `docker run -p` does: without a configuration, reached from outside. */
export async function imageAlone(t: Test, node: ControlPlane): Promise<void> {
  const { at: apiPath } = await place(node, 'alone')
  const image = `bidweir:${programVersion()}`
  const securityContext = {
    ...{ allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: { drop: ['ALL'] } },
    seccompProfile: { type: 'RuntimeDefault' },
  }
  const pod = {
    metadata: { name: 'alone' },
    spec: { containers: [{ name: 'bidweir', image, securityContext }] },
  }
  t.equal((await node.api('POST', `${apiPath}/pods`, pod)).status, 201)
  const reached = async (port: number, path: string, init?: RequestInit) => {
    const { podIP } = (await node.api('GET', `${apiPath}/pods/alone`)).body.status
    const response = await fetch(`http://${podIP}:${port}${path}`, init).catch(() => null)
    return response?.status
  }
  const [notReady, limit] = ['a listener that is reached from outside', 300_000]
  await until(async () => (await reached(8081, '/readyz')) === 200, { what: notReady, limit })
  t.equal(await reached(8081, '/'), 200, 'the console')
  const imp = [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }]
  const body = JSON.stringify({ id: 'curl-1', imp, tmax: 1000 })
  const bid = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  await until(async () => (await reached(8080, '/bid/demo', bid)) === 200, { what: 'a bid', limit })
  await node.api('DELETE', `${apiPath}/pods/alone?gracePeriodSeconds=0`)
}
