/** ConfigMaps of suppliers (`suppliersFrom`): mounted, named in the configuration, and read as kubelet mounts them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { loadConfig } from '../../service/config/load.ts'
import { mountConfigMap } from '../support/config-map.ts'
import { newFolder } from '../support/process.ts'
import { type Manifest, manifests, needsHelm, template } from './helm.ts'

interface Pod {
  containers: { name: string; volumeMounts: { name: string; mountPath: string }[] }[]
  volumes: { name: string; configMap?: { name: string; optional: boolean } }[]
}
const podOf = (objects: readonly Manifest[], kind: string) =>
  (objects.find((object) => object.kind === kind)!.spec as { template: { spec: Pod } }).template
    .spec

const configOf = (objects: readonly Manifest[]) =>
  parse(objects.find(({ kind }) => kind === 'ConfigMap')!.data!['bidweir.yaml']!) as {
    suppliers: object[]
    suppliersFrom: string[]
  }

t.test(
  'the pods and the hook mount the ConfigMaps, and the configuration names them',
  needsHelm,
  async (t) => {
    const { ok, text, error } = template(
      ...[
        '--set',
        'suppliersFrom[0].name=east,suppliersFrom[1].name=west,suppliersFrom[1].optional=true',
      ],
    )
    if (!ok) throw new Error(error)
    const objects = manifests(text)
    const { suppliers, suppliersFrom } = configOf(objects)
    t.same(suppliersFrom, ['/etc/bidweir-suppliers/east', '/etc/bidweir-suppliers/west'])
    t.same(suppliers, [], 'no demo')
    for (const [kind, optional] of [
      ['Deployment', [false, true]],
      ['Job', [true, true]],
    ] as const) {
      const { containers, volumes } = podOf(objects, kind)
      t.equal(containers.length, 1, `${kind}: no demo`)
      const mounts = containers[0]!.volumeMounts.filter(({ name }) => name.startsWith('suppliers-'))
      t.same(
        mounts.map(({ mountPath }) => mountPath),
        suppliersFrom,
      )
      const mounted = mounts.map(
        ({ name }) => volumes.find((volume) => volume.name === name)!.configMap,
      )
      t.same(mounted, [
        { name: 'east', optional: optional[0] },
        { name: 'west', optional: optional[1] },
      ])
    }
  },
)

t.test(
  '6,000 suppliers fit into ConfigMaps, and the release does not grow with them',
  needsHelm,
  async (t) => {
    const folder = newFolder()
    const names = Array.from({ length: 12 }, (_, n) => `suppliers-${n}`)
    const values = join(folder, 'values.yaml')
    writeFileSync(values, JSON.stringify({ suppliersFrom: names.map((name) => ({ name })) }))
    const { ok, text: rendered, error } = template('--values', values)
    if (!ok) throw new Error(error)
    const config = configOf(manifests(rendered))
    t.ok(rendered.length < 200_000, `${rendered.length} bytes`)
    for (const [part, name] of names.entries()) {
      const blocks = Array.from({ length: 500 }, (_, n) => {
        const opd =
          'opd: {enabled: true, mode: margin, targetMargin: 0.2, exclude: {seats: [a, b]}}'
        return `  - {id: s${part}-${n}, account: a, endpoints: ["https://bid.example/${n}"], ${opd}}\n`
      })
      const text = `suppliers:\n${blocks.join('')}`
      t.ok(text.length < 1_048_576)
      mountConfigMap(join(folder, name), { 'suppliers.yaml': text })
    }
    const suppliersFrom = config.suppliersFrom.map((path) =>
      path.replace('/etc/bidweir-suppliers', folder),
    )
    const file = join(folder, 'bidweir.yaml')
    writeFileSync(file, JSON.stringify({ suppliers: config.suppliers, suppliersFrom }))
    const { config: loaded, faults } = loadConfig(file)
    t.same(faults, [])
    t.equal(loaded?.suppliers.length, 6000)
  },
)
