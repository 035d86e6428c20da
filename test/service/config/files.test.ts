/** Configuration files: regular and of bounded size; no content blocks the event loop. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../service/config/load.ts'
import { createLoad } from '../../../service/config/loader.ts'
import { file, folder } from '../../support/config.ts'

const fifo = join(folder, 'fifo')
execFileSync('mkfifo', [fifo])
mkdirSync(join(folder, 'sub'))
const large = (name: string, mebibytes: number) => {
  truncateSync(file('', name), mebibytes * 2 ** 20)
  return join(folder, name)
}

const latin = join(folder, 'latin')
writeFileSync(latin, Buffer.from('location: somewhere\n# Müller\nsuppliers: []\n', 'latin1'))

for (const [path, found] of [
  [latin, 'is not UTF-8 in line 2'],
  [fifo, 'is a FIFO'],
  ['/dev/zero', 'is a device'],
  [join(folder, 'sub'), 'is a directory'],
  [large('20', 20), 'is 20 MiB'],
  // It says that it is empty, and holds 2 GiB and more.
  ['/proc/self/pagemap', 'is more than 16 MiB'],
  [join(folder, 'nowhere'), 'cannot be read (ENOENT)'],
] as const)
  t.test(`a file that ${found} is a fault with its place`, (t) => {
    const allowed = /ENOENT/.test(found)
      ? /can be read/
      : /UTF-8/.test(found)
        ? 'UTF-8'
        : 'a regular file of at most 16 MiB'
    t.match(loadConfig(path), {
      config: null,
      faults: [{ path: '', found: `${path}, which ${found}`, allowed }],
    })
    const named = loadConfig(file(`admin: {auth: {embedded: {realm: {file: "${path}"}}}}\n`))
    t.equal(named.config, null)
    t.match(named.faults[0], {
      path: 'admin.auth.embedded.realm',
      line: 1,
      found: `{file: ${path}}, which ${found}`,
      allowed,
    })
    t.end()
  })

t.test('a file of 16 MiB is read', (t) => {
  const text = `location: somewhere\n${`#${'x'.repeat(1022)}\n`.repeat(1024 * 16 - 1)}`
  t.equal(loadConfig(file(text)).config?.location, 'somewhere')
  t.end()
})

t.test('what takes too much memory or time to read is refused, and the loop goes on', async (t) => {
  const brackets = file('['.repeat(500_000))
  for (const [limits, found] of [
    [{ time: 60_000, memory: 32 }, /too much memory/],
    [{ time: 1, memory: 512 }, /longer than 0.001 s/],
  ] as const) {
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    const { config, faults, files } = await createLoad(brackets, limits)()
    clearInterval(timer)
    t.equal(config, null)
    t.match(faults, [{ path: '', line: null, found }])
    t.same([...files.keys()], [brackets], 'it is watched all the same')
    t.ok(turns > 0, 'others had their turns')
  }
})

t.test(
  'what is loaded is what the file says, and suppliers that read as before are the same',
  async (t) => {
    const many = (factor: number) =>
      Array.from({ length: 100 }, (_each, n) => {
        const opd = `{enabled: true, minFactor: ${n === 7 ? factor : 0.8}}`
        return `  - {id: s${n}, endpoints: ["http://x/${n}"], opd: ${opd}}\n`
      }).join('')
    const path = file(`suppliers:\n${many(0.7)}`)
    const load = createLoad(path)
    const first = await load()
    t.same(first, loadConfig(path))
    writeFileSync(path, `suppliers:\n${many(0.9)}`)
    const second = await load()
    const before = new Set(first.config!.suppliers)
    const other = second.config!.suppliers.filter((supplier) => !before.has(supplier))
    t.match(other, [{ id: 's7', opd: { minFactor: 0.9 } }])
    writeFileSync(path, 'location: here')
    t.match(await load(), { config: null, faults: [{ path: 'suppliers' }] }, 'it has lost them')
    writeFileSync(path, `suppliers:\n${many(0.9)}`)
    t.equal((await load()).config!.suppliers[0], first.config!.suppliers[0], 'after a fault, too')
  },
)

t.test('changes that follow each other are loaded by one thread', async (t) => {
  const path = file('suppliers: []')
  const load = createLoad(path)
  const threads: unknown[] = []
  const started = (worker: unknown) => void threads.push(worker)
  process.on('worker', started)
  t.teardown(() => process.off('worker', started))
  const idsAfter = async (text: string) => {
    writeFileSync(path, text)
    return (await load()).config?.suppliers.map(({ id }) => id) ?? null
  }
  t.same(await idsAfter('suppliers: [{id: a, endpoints: ["http://x/"]}]'), ['a'])
  t.equal(threads.length, 1, 'the thread of a start')
  t.same(await idsAfter('suppliers: [{id: b, endpoints: ["http://x/"]}]'), ['b'])
  t.same(await idsAfter('suppliers: ['), null)
  t.same(await idsAfter('suppliers: [{id: b, endpoints: ["http://x/"]}]'), ['b'])
  t.equal(threads.length, 2, 'ends, and that of a reload remains')
})

t.test('faults beyond 10,000 are counted, and long ones are cut', async (t) => {
  const rows = Array.from({ length: 5050 }, (_each, n) => `  - {id: A${n}, endpoints: [1]}\n`)
  const long = `  - {id: a, endpoints: ["http://x"], ${'x'.repeat(1000)}: 1}\n`
  const { faults } = await createLoad(file(`suppliers:\n${long}${rows.join('')}`))()
  t.equal(faults.length, 10_001)
  t.equal(faults.at(-1)!.found, '101 faults more')
  t.equal(Math.max(...faults.map(({ path }) => path.length)), 500)
})

t.test('suppliers whose blocks are equal and different are read as they are written', async (t) => {
  const rows = [
    'opd: {enabled: true}',
    'opd: {enabled: true, exclude: {seats: [s]}}',
    'opd: {enabled: true}, callers: {headers: {x-key: a}}',
    'clearing: {maxOver: 2}',
    'opd: {enabled: true, caps: {perBid: 1}}, callers: {headers: {x-key: a}}',
    'opd: {enabled: true, caps: {perBid: 1}, exclude: {seats: [s]}}',
  ].map((more, index) => `  - {id: s${index}, endpoints: ["http://x/"], ${more}}\n`)
  const path = file(`suppliers:\n${rows.join('')}`)
  const { config } = await createLoad(path)()
  t.same(config, loadConfig(path).config)
})
