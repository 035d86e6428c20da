/** Suppliers in folders of files, such as ConfigMaps of Kubernetes (`suppliersFrom`). */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { faultLine } from '../../../service/config/faults.ts'
import { loadConfig } from '../../../service/config/load.ts'
import { createLoad } from '../../../service/config/loader.ts'
import { mountConfigMap } from '../../support/config-map.ts'
import { newFolder } from '../../support/process.ts'
import { post, raw } from '../../support/raw.ts'
import { serveBidweir } from '../../support/served-node.ts'
import { echoSupplier, yamlOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const block = (id: string, more = '') => `  - {id: ${id}, endpoints: ["http://x/"]${more}}\n`
const fileOf = (...blocks: string[]) => `suppliers:\n${blocks.join('')}`

/** A configuration with one folder, and what is in use after each load. */
function world(files: Record<string, string>, main = '') {
  const folder = newFolder()
  const map = mountConfigMap(join(folder, 'parts'), files)
  const path = join(folder, 'bidweir.yaml')
  writeFileSync(path, `suppliersFrom: [parts]\n${main}`)
  const load = createLoad(path)
  return {
    ...{ folder, map, path },
    name: (file: string) => join(folder, 'parts', file),
    async load() {
      const { config, faults, keptFaults, fileOf: owners, files: read } = await load()
      const lines = (all: typeof faults) => all.map((fault) => faultLine(fault, path))
      return {
        ids: config?.suppliers.map(({ id }) => id) ?? null,
        suppliers: config?.suppliers ?? [],
        faults: lines(faults),
        kept: lines(keptFaults),
        owners,
        read: [...read.keys()],
      }
    },
  }
}

t.test(
  'the suppliers of all files of a folder are used, beside those of the configuration',
  async (t) => {
    const { load, name, path } = world(
      {
        'a.yaml': fileOf(block('a1'), block('a2')),
        'b.json': '{"suppliers": []}',
        'c.txt': 'no YAML: [',
      },
      fileOf(block('main')),
    )
    const first = await load()
    t.match(first, { ids: ['main', 'a1', 'a2'], faults: [], kept: [] })
    t.same(
      [...first.owners],
      [
        ['a1', name('a.yaml')],
        ['a2', name('a.yaml')],
      ],
    )
    t.same(
      loadConfig(path).config?.suppliers.map(({ id }) => id),
      first.ids,
      'commands read the same',
    )
  },
)

t.test(
  'at a start a fault in any file is a fault of the configuration, with file and line',
  async (t) => {
    const { load, name } = world({
      'a.yaml': fileOf(block('a1'), block('a2', ', timeout: fast')),
      'b.yaml': `${fileOf(block('a1'))}currency: {}\n`,
    })
    const { ids, faults } = await load()
    t.equal(ids, null)
    t.match(faults, [
      `${name('a.yaml')}:3: suppliers[1].timeout: found "fast"`,
      `${name('b.yaml')}:3: currency: found a key that is not known, allowed: suppliers`,
    ])
  },
)

t.test('a start refuses an id that two files have, and names both', async (t) => {
  const { load, name } = world({
    'a.yaml': fileOf(block('x')),
    'b.yaml': fileOf(block('y'), block('x')),
  })
  t.match(await load(), {
    ids: null,
    faults: [`${name('b.yaml')}:3: suppliers[1].id: found "x", which ${name('a.yaml')} has, too`],
  })
})

t.test('a file with a fault keeps its suppliers, and stops no other file', async (t) => {
  const { load, map, name } = world({ 'a.yaml': fileOf(block('a')), 'b.yaml': fileOf(block('b')) })
  const first = await load()
  map.replace({
    'a.yaml': fileOf(block('a', ', colour: red'), block('a2')),
    'b.yaml': fileOf(block('b', ', timeout: 90ms')),
    'new.yaml': fileOf(block('n', ', timeout: fast')),
  })
  const second = await load()
  t.match(second, { ids: ['a', 'b'], faults: [] })
  t.equal(second.suppliers[0], first.suppliers[0], 'the supplier is the same object')
  t.equal(second.suppliers[1]!.timeout, 90)
  t.match(second.kept, [
    `${name('a.yaml')}:2: suppliers[0].colour: found a key that is not known`,
    `${name('new.yaml')}:2: suppliers[0].timeout: found "fast"`,
  ])
  t.match((await load()).kept.length, 2, 'until it is corrected')
  map.replace({ 'a.yaml': fileOf(block('a2')), 'b.yaml': fileOf(block('b')) })
  t.match(await load(), { ids: ['a2', 'b'], kept: [] })
})

t.test('OPD is not switched off by a fault in its block at a reload', async (t) => {
  const { load, map } = world({ 'a.yaml': fileOf(block('a', ', opd: {enabled: true}')) })
  await load()
  map.replace({ 'a.yaml': fileOf(block('a', ', opd: {enabled: true, minFactor: 7}')) })
  const { suppliers, kept } = await load()
  t.match(suppliers, [{ id: 'a', opd: { enabled: true } }])
  t.match(kept, [/suppliers\[0\]\.opd\.minFactor: found 7/])
})

t.test('a supplier that moves between files stays until both have changed', async (t) => {
  const { load, name } = world({
    'a.yaml': fileOf(block('a')),
    'b.yaml': fileOf(block('b'), block('x')),
  })
  await load()
  writeFileSync(name('a.yaml'), fileOf(block('a'), block('x', ', timeout: 90ms')))
  t.match(await load(), {
    ids: ['a', 'b', 'x'],
    kept: [`${name('a.yaml')}:3: suppliers[1].id: found "x", which ${name('b.yaml')} has, too`],
  })
  writeFileSync(name('b.yaml'), fileOf(block('b')))
  const { ids, suppliers, kept } = await load()
  t.same([ids, kept], [['a', 'x', 'b'], []])
  t.equal(suppliers[1]!.timeout, 90)
})

t.test(
  'a file that is refused has its former suppliers, which another file cannot take',
  async (t) => {
    const { load, name } = world({
      'a.yaml': fileOf(block('a')),
      'b.yaml': fileOf(block('y')),
      'c.yaml': fileOf(block('x')),
    })
    await load()
    writeFileSync(name('a.yaml'), fileOf(block('a'), block('y')))
    writeFileSync(name('b.yaml'), fileOf(block('x')))
    const { ids, kept } = await load()
    t.same(ids, ['a', 'y', 'x'])
    t.match(kept, [/b\.yaml:2: .* which .*c\.yaml has/, /a\.yaml:3: .* which .*b\.yaml has/])
  },
)

t.test('the configuration file cannot take an id that a file has', async (t) => {
  const { load, path, name } = world({ 'a.yaml': fileOf(block('a')) })
  await load()
  writeFileSync(path, `suppliersFrom: [parts]\n${fileOf(block('a'))}`)
  t.match(await load(), {
    ids: null,
    faults: [`suppliers: found "a", which ${name('a.yaml')} has, too`],
  })
})

t.test(
  'a file that is removed removes its suppliers, and an emptied folder is a fault',
  async (t) => {
    const { load, map, folder } = world({
      'a.yaml': fileOf(block('a')),
      'b.yaml': fileOf(block('b')),
    })
    await load()
    map.replace({ 'b.yaml': fileOf(block('b')) })
    t.match(await load(), { ids: ['b'], kept: [] })
    map.replace({})
    t.match(await load(), {
      ids: ['b'],
      kept: [`.yaml:1: suppliersFrom[0]: found ${map.folder}, which has no file, but suppliers`],
    })
    renameSync(map.folder, join(folder, 'elsewhere'))
    t.match(await load(), {
      ids: ['b'],
      kept: [`.yaml:1: suppliersFrom[0]: found ${map.folder}, which cannot be read (ENOENT)`],
    })
    mkdirSync(map.folder)
    writeFileSync(join(map.folder, 'b.yaml'), 'suppliers: []')
    t.match(await load(), { ids: [], kept: [] })
    rmSync(map.folder, { recursive: true })
  },
)

t.test('all files together have at most 10,000 suppliers', async (t) => {
  const many = (prefix: string, count: number) =>
    fileOf(...Array.from({ length: count }, (_, n) => block(`${prefix}${n}`)))
  const { load } = world({ 'a.yaml': many('a', 6000), 'b.yaml': many('b', 4001) })
  t.match(await load(), {
    ids: null,
    faults: [/10001 suppliers in all files, allowed: at most 10000/],
  })
})

t.test('a node reads what kubelet replaces, again and again', async (t) => {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const served = (id: string, more = '') =>
    `  - {id: ${id}, endpoints: ["${supplier.url}"], timeout: 20s${more}}\n`
  const [east, west] = ['east', 'west'].map((name) =>
    mountConfigMap(join(folder, name), { 'suppliers.yaml': fileOf(served(name)) }),
  ) as [ReturnType<typeof mountConfigMap>, ReturnType<typeof mountConfigMap>]
  const more = 'suppliersFrom: [east, west]'
  const yaml = yamlOf({ endpoint: supplier.url, more, suppliers: ['id: main'] })
  const node = await serveBidweir(yaml, folder, createLoad)
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const bid = async (id: string) =>
    (await raw(node.proxyPort, post(`/bid/${id}`, '{"id":"q","ext":{"bids":[]}}'))).status
  const metrics = async () =>
    await (await fetch(`http://127.0.0.1:${node.adminPort}/metrics`)).text()
  t.same([await bid('main'), await bid('east'), await bid('west')], [200, 200, 200])
  for (let round = 0; round < 3; round++) {
    east.replace({ 'suppliers.yaml': fileOf(served('east'), served(`new${round}`)) })
    await until(async () => (await bid(`new${round}`)) === 200)
  }
  t.equal(await bid('new0'), 404)
  west.replace({ 'suppliers.yaml': fileOf(served('west', ', timeout: never')) })
  await until(async () => /^bidweir_supplier_files_refused 1$/m.test(await metrics()))
  t.match(node.stderr(), `${join(folder, 'west', 'suppliers.yaml')}:2: suppliers[0].timeout`)
  t.match(node.stderr(), 'the suppliers of the file stay as they were')
  t.equal(await bid('west'), 200)
  west.replace({ 'suppliers.yaml': fileOf(served('west')), 'second.yaml': fileOf(served('south')) })
  await until(async () => (await bid('south')) === 200)
  await until(async () => /^bidweir_supplier_files_refused 0$/m.test(await metrics()))
})
