/** ConfigMaps of suppliers on a node: kubelet mounts them, and what changes in them takes effect in the running pod. */
import type { Test } from 'tap'
import { startLimit, until } from '../../support/until.ts'
import type { ControlPlane } from '../cluster/control-plane.ts'
import { common, place } from '../cluster/release.ts'
import { chart } from '../helm.ts'

const listOf = (...ids: string[]) =>
  `suppliers:\n${ids.map((id) => `  - {id: ${id}, endpoints: ["http://127.0.0.1:9/"]}\n`).join('')}`

export async function suppliersFrom(t: Test, node: ControlPlane): Promise<void> {
  const { api } = node
  const { at: apiPath, helm, pods, url } = await place(node, 'parts')
  /** A ConfigMap that belongs to nobody's release. */
  const configMap = (name: string, suppliers: string) => ({
    ...{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } },
    data: { 'list.yaml': suppliers },
  })
  for (const [name, id] of [
    ['east', 'one'],
    ['west', 'two'],
  ] as const) {
    const { status } = await api('POST', `${apiPath}/configmaps`, configMap(name, listOf(id)))
    t.equal(status, 201)
  }
  const names = 'suppliersFrom[0].name=east,suppliersFrom[1].name=west'
  await helm(t, 'install', chart, '--wait', ...common, '--set', names)
  const [proxy, admin] = [await url('proxy'), await url('admin')]
  const uids = async () => (await pods()).map(({ metadata }) => metadata.uid)
  const before = await uids()
  /** 404: there is no such supplier; 204: its endpoint refuses connections. */
  const statuses = () =>
    Promise.all(
      ['one', 'two', 'three'].map(async (id) => {
        const headers = { 'content-type': 'application/json' }
        const init = { method: 'POST', headers, body: '{"id":"1","imp":[{"id":"1"}]}' }
        return (await fetch(`${proxy}/bid/${id}`, init)).status
      }),
    )
  t.same(await statuses(), [204, 204, 404], 'the suppliers of both')

  const change = (name: string, suppliers: string) =>
    api('PUT', `${apiPath}/configmaps/${name}`, configMap(name, suppliers))
  const served = async (wanted: readonly number[]) =>
    until(async () => JSON.stringify(await statuses()) === JSON.stringify(wanted), {
      what: `bids answered with ${wanted.join()}`,
      limit: startLimit,
    })
  t.equal((await change('east', listOf('one', 'three'))).status, 200)
  await served([204, 204, 204])
  t.equal((await change('east', listOf('three'))).status, 200)
  await served([404, 204, 204])

  t.equal((await change('west', 'suppliers: [{id: two, timeout: fast}]\n')).status, 200)
  const refused = async () => {
    const text = await (await fetch(`${admin}/metrics`)).text()
    return Number(/^bidweir_supplier_files_refused (\d+)/m.exec(text)?.[1])
  }
  await until(async () => (await refused()) === 1, { what: 'a refused file', limit: startLimit })
  t.same(await statuses(), [404, 204, 204], 'a file with a fault keeps its suppliers')
  t.same(await uids(), before, 'in the pod of before')
  t.match((await pods())[0]!.status.containerStatuses, [{ restartCount: 0 }])
  await helm(t, 'uninstall', '--wait')
}
