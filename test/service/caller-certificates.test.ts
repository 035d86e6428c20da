/** `callers.subjects` without `proxy.tls.clientCa`: nobody could send bids, so it is a fault wherever the supplier comes from. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { changeBlocks } from '../../admin/store/supplier-blocks.ts'
import { faultLine } from '../../service/config/faults.ts'
import { loadConfig } from '../../service/config/load.ts'
import { createLoad } from '../../service/config/loader.ts'
import { referenceRules } from '../../service/config/supplier-block.ts'
import { StoredSuppliers } from '../../service/stored-suppliers.ts'
import { suppliersOf } from '../support/api-suppliers.ts'
import { certificate } from '../support/certificate.ts'
import { runHere } from '../support/cli.ts'
import { newFolder } from '../support/process.ts'
import { serveNode } from '../support/served-node.ts'
import { silent, storeAt } from '../support/store.ts'

const found = /suppliers\[0\]\.callers\.subjects: found subjects without proxy\.tls\.clientCa/
const row = '{id: acme, endpoints: ["http://x/"], callers: {subjects: [bidder.example]}}'
const block = {
  ...{ id: 'acme', endpoints: ['http://127.0.0.1:9/'] },
  callers: { subjects: ['bidder.example'] },
}

t.test('in the configuration file, and in a file of suppliersFrom', (t) => {
  const folder = newFolder()
  const file = join(folder, 'bidweir.yaml')
  const faults = () => loadConfig(file).faults.map((fault) => faultLine(fault, file))
  writeFileSync(file, `suppliers: [${row}]\n`)
  t.match(faults(), [found])
  mkdirSync(join(folder, 'parts'))
  writeFileSync(join(folder, 'parts/a.yaml'), `suppliers: [${row}]\n`)
  writeFileSync(file, 'suppliersFrom: [parts]\n')
  t.match(faults(), [found])
  t.end()
})

const pair = certificate('ca.example')

t.test(
  'a file of suppliersFrom is checked again when clientCa is removed',
  { skip: pair === null && 'openssl not found' },
  async (t) => {
    const folder = newFolder()
    for (const [name, text] of Object.entries(pair!)) writeFileSync(join(folder, name), text)
    const file = join(folder, 'bidweir.yaml')
    const main = (clientCa: string) =>
      writeFileSync(
        file,
        `proxy: {tls: {cert: {file: cert}, key: {file: key}${clientCa}}}\nsuppliersFrom: [parts]\n`,
      )
    mkdirSync(join(folder, 'parts'))
    writeFileSync(join(folder, 'parts/a.yaml'), `suppliers: [${row}]\n`)
    main(', clientCa: {file: cert}')
    const load = createLoad(file)
    const ids = ({ config }: Awaited<ReturnType<typeof load>>) =>
      config?.suppliers.map(({ id }) => id)
    const first = await load()
    t.match([ids(first), first.faults], [['acme'], []])
    main('')
    const second = await load()
    t.match([ids(second), second.faults], [['acme'], []], 'the supplier stays as it was')
    t.match(
      second.keptFaults.map((fault) => faultLine(fault, file)),
      [found],
    )
    main(', clientCa: {file: cert}')
    t.same((await load()).keptFaults, [])
  },
)

t.test('through the API, and with bidweir apply', async (t) => {
  const key = Buffer.alloc(32, 9).toString('base64url')
  const folder = newFolder()
  const database = `sqlite:${join(folder, 'b.db')}`
  const more = `store: {database: "${database}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`
  const node = await serveNode({ endpoint: 'http://x/', folder, more, suppliers: ['id: other'] })
  t.teardown(() => node.stop())
  const { call, change } = suppliersOf(node)
  const errors = [{ pointer: '/callers/subjects', detail: /without proxy\.tls\.clientCa/ }]
  const added = await call('POST', '', block)
  t.match([added.status, added.body.errors], [422, errors])
  t.equal((await call('POST', '', { ...block, callers: {} })).status, 201)
  const { callers } = block
  const patched = await change('PATCH', 'acme', { callers }, '?dryRun=true')
  t.match([patched.status, patched.body.errors], [422, errors])
  t.match((await change('PATCH', 'acme', { callers })).body, { status: 422, errors })
  const list = join(folder, 'list.yaml')
  writeFileSync(list, `suppliers: [${row}]\n`)
  const applied = await runHere(['apply', '-f', list, '--config', join(folder, 'bidweir.yaml')])
  t.match(applied, { code: 1, stderr: found })
})

t.test('a supplier of the API is used once the node has clientCa', async (t) => {
  const store = await storeAt(t, { url: 'sqlite::memory:' })
  const author = { who: 'admin', account: '*', requestId: '1' }
  const change = {
    id: 'acme',
    action: 'supplier_create',
    block,
    before: null,
    after: block,
  } as const
  await changeBlocks(store, Date.now(), author, ['acme'], () => [change])
  let certifies = false
  const rules = referenceRules(
    '.',
    () => [],
    () => certifies,
  )
  const stored = new StoredSuppliers(store, rules, silent)
  await stored.read()
  t.same(stored.mergedWith([]), [])
  t.match(stored.counts(), { refused: 1 })
  certifies = true
  await stored.recheck()
  const [supplier] = stored.mergedWith([])
  t.match([supplier, stored.counts()], [{ id: 'acme' }, { refused: 0 }])
  await stored.recheck()
  t.equal(stored.mergedWith([])[0], supplier, 'one that has not changed is the same object')
})
