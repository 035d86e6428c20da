/** Faults of the headers of a supplier, in a file and through the API. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { withoutSecrets } from '../../../service/config/hidden.ts'
import { loadConfig } from '../../../service/config/load.ts'
import { blockFaults, referenceRules } from '../../../service/config/supplier-block.ts'
import { file, folder } from '../../support/config.ts'

const faultsOf = (headers: string, key = 'headers') =>
  loadConfig(
    file(`suppliers:\n  - {id: acme, endpoints: ["http://x/"], ${key}: ${headers}}\n`),
  ).faults.map(({ path, found, allowed }) => `${path}: ${found}: ${allowed}`)

const controls = ['\\r\\n', '\\n', '\\r', '\\0', '\\x7f', '\\x01']

for (const control of controls)
  t.test(`a header value with ${control} is refused with its place`, (t) => {
    const value = `"a${control}X-Injected: 1"`
    t.match(faultsOf(`{set: {X-Key: ${value}}}`), [
      /^suppliers\[0\]\.headers\.set\.X-Key: a string: a header value/,
    ])
    t.match(faultsOf(`{headers: {X-Key: ${value}}}`, 'callers'), [
      /^suppliers\[0\]\.callers\.headers\.X-Key: a string: a header value/,
    ])
    t.end()
  })

t.test('characters that the wire would change, and spaces at the ends, are refused', (t) => {
  for (const value of ['"\u010d\u010a"', '"\u20ac"', '" a"', '"a "'])
    t.match(faultsOf(`{set: {X-Key: ${value}}}`), [/headers\.set\.X-Key.*Latin-1/], value)
  for (const value of ['""', '"a b\\tc"', '"\u00fc"', '"Bearer x=="'])
    t.same(faultsOf(`{set: {X-Key: ${value}}}`), [], value)
  t.end()
})

t.test('headers of the connection and of the framing are refused', (t) => {
  for (const name of ['Connection', 'host', 'Content-Length', 'transfer-encoding', 'a b', ''])
    t.match(faultsOf(`{set: {"${name}": x}}`), [/headers\.set/], name)
  t.match(faultsOf('{remove: [Content-Encoding]}'), [/headers\.remove\[0\]/])
  t.match(faultsOf('{set: {X-A: "1", x-a: "2"}}'), [/headers\.set\.x-a: .*set once/])
  t.end()
})

t.test('a secret is a reference, and is never shown', (t) => {
  t.match(faultsOf('{secretFrom: {X-Api-Key: hunter2}}'), [
    /^suppliers\[0\]\.headers\.secretFrom\.X-Api-Key: a value: a reference to the secret/,
  ])
  writeFileSync(join(folder, 'apikey'), 'hunter2\n')
  writeFileSync(join(folder, 'lines'), 'hunter2\n\nmore\n')
  process.env['TEST_API_KEY'] = 'hunter3'
  t.teardown(() => delete process.env['TEST_API_KEY'])
  const { config } = loadConfig(
    file(
      'suppliers: [{id: a, endpoints: ["http://x/"], headers: {secretFrom: {X-Api-Key: {file: apikey}, Authorization: "Bearer ${TEST_API_KEY}"}}}]\n',
    ),
  )
  t.same(config!.suppliers[0]!.headers.secretFrom, {
    'X-Api-Key': 'hunter2',
    Authorization: 'Bearer hunter3',
  })
  t.notMatch(JSON.stringify(withoutSecrets(config!)), /hunter/)
  const written = loadConfig(
    file(
      'suppliers: [{id: a, endpoints: ["http://x/"], headers: {set: {Authorization: hunter2, X-A: b}}}]',
    ),
  ).config!
  t.same(withoutSecrets(written).suppliers[0]!.headers.set, {
    Authorization: '(hidden)',
    'X-A': 'b',
  })
  const broken = faultsOf('{secretFrom: {X-Api-Key: {file: lines}}}')
  t.match(broken, [/secretFrom\.X-Api-Key: the value of \{file: lines\}: a header value/])
  t.notMatch(broken.join(), /hunter/)
  t.end()
})

t.test('a supplier of the API sends no variable and no file of the node', (t) => {
  mkdirSync(join(folder, 'data'), { recursive: true })
  for (const name of ['partner', 'long', 'data/keys.json', 'db-password'])
    writeFileSync(join(folder, name), name === 'long' ? 'x'.repeat(5000) : 'hunter2')
  const secretFiles = [join(folder, 'data/keys.json'), join(folder, 'db-password')]
  const rules = referenceRules(
    folder,
    () => secretFiles,
    () => false,
  )
  process.env['BIDWEIR_SUPPLIER_ACME'] = 'hunter2'
  t.teardown(() => delete process.env['BIDWEIR_SUPPLIER_ACME'])
  const faults = (secret: unknown) =>
    blockFaults(
      { id: 'acme', endpoints: ['http://x/'], headers: { secretFrom: { 'x-key': secret } } },
      rules,
    )
  t.same(faults({ file: 'partner' }), [])
  t.same(faults('${BIDWEIR_SUPPLIER_ACME}'), [])
  const pointer = '/headers/secretFrom/x-key'
  for (const [secret, detail] of [
    ['hunter2', /a reference to the secret/],
    ['${PATH}', /BIDWEIR_SUPPLIER_NAME/],
    ['Bearer ${BIDWEIR_SUPPLIER_ACME}', /a reference to the secret/],
    [{ file: 'data/../data/keys.json' }, /a file of the node itself/],
    [{ file: 'db-password' }, /a file of the node itself/],
    [{ file: '/proc/self/environ' }, /a file of the node itself/],
    [{ file: 'long' }, /cannot be read/],
  ] as const)
    t.match(faults(secret), [{ pointer, detail }], JSON.stringify(secret))
  const set = (name: string) =>
    blockFaults({ id: 'acme', endpoints: ['http://x/'], headers: { set: { [name]: 'v' } } }, rules)
  for (const name of [
    'Authorization',
    'Proxy-Authorization',
    'Cookie',
    'X-Api-Key',
    'X-Auth-Token',
  ])
    t.match(set(name), [{ pointer: `/headers/set/${name}`, detail: /headers\.secretFrom/ }])
  for (const name of ['x-openrtb-version', 'x-author']) t.same(set(name), [])
  t.end()
})
