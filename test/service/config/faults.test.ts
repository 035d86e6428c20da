/** Faults of a configuration file: all at once, each with its place, and no secret among them. */
import { join } from 'node:path'
import t from 'tap'
import { faultLine } from '../../../service/config/faults.ts'
import { loadConfig } from '../../../service/config/load.ts'
import { warningsOf } from '../../../service/config/warnings.ts'
import { file, folder, supplier } from '../../support/config.ts'

t.test(
  'all faults are reported together, each with its path, its line, what was found and what is allowed',
  (t) => {
    const { config, faults } = loadConfig(
      file(`proxy:
  maxConnections: many
  colour: red
suppliers:
  - id: Acme!
    endpoints: [ftp://x]
    timeout: fast
  - endpoints: nowhere
    endpoint: http://x
    maxInflights: 4
`),
    )
    t.equal(config, null)
    const lines = faults.map((fault) => faultLine(fault, 'bidweir.yaml'))
    for (const wanted of [
      /^bidweir.yaml:2: proxy.maxConnections: found "many", allowed: (number|int)/,
      /^bidweir.yaml:3: proxy.colour: found a key that is not known, allowed: .*maxConnections/,
      /^bidweir.yaml:5: suppliers\[0\].id: found "Acme!", allowed: a-z/,
      /^bidweir.yaml:6: suppliers\[0\].endpoints\[0\]: found "ftp:\/\/x", allowed: a URL/,
      /^bidweir.yaml:7: suppliers\[0\].timeout: found "fast", allowed: a duration/,
      /^bidweir.yaml:8: suppliers\[1\].id: found nothing/,
      /suppliers\[1\].endpoints: found "nowhere", allowed: array/,
      /:9: suppliers\[1\].endpoint: found a key that is not known \(is endpoints meant\?\), allowed: /,
      /:10: suppliers\[1\].maxInflights: found a key that is not known \(is maxInFlight meant\?\)/,
    ])
      t.ok(
        lines.some((line) => wanted.test(line)),
        String(wanted),
      )
    t.end()
  },
)

t.test('what cannot be read is a fault with its place, and secrets are not repeated', (t) => {
  const { faults } = loadConfig(
    file(`opd: {keys: [{id: 1, secret: hunter2}, {id: 1, secret: {file: nowhere}}]}
location: "\${TEST_UNSET}"
`),
  )
  const text = faults.map((fault) => faultLine(fault, 'f')).join('\n')
  t.match(text, /opd.keys\[1\].secret: found \{file: nowhere\}, which cannot be read \(ENOENT\)/)
  t.match(text, /location: found \$\{TEST_UNSET\}, which is not set/)
  t.match(text, /opd.keys\[0\].secret: found a string/)
  t.notMatch(text, /hunter2/)
  t.end()
})

t.test('secrets are not repeated, wherever the fault beside them is', (t) => {
  const secret = 'hunter2'.repeat(7)
  for (const text of [
    `opd: {keys: [{id: 1, secret: ${secret}}, {id: 1, secret: ${secret}}]}`,
    `opd: {keys: {id: 1, secret: ${secret}}}`,
    `admin: {auth: {issuer: "https://i", embedded: {adminPassword: ${secret}}}}`,
    `store: postgres://user:${secret}@db/x`,
    `suppliers: [{id: a, endpoints: ["http://user:${secret}@x/"]}]`,
    `suppliers: [{id: a, endpoints: ["http://:${secret}@x/"]}]`,
    `suppliers: [{id: a, endpoints: ["http://x/"], callers: {headers: {a: [${secret}]}}}]`,
    `proxy: {tls: {key: ${secret}, cert: none}}`,
  ]) {
    const { faults } = loadConfig(file(text))
    t.ok(faults.length > 0)
    t.notMatch(faults.map((fault) => faultLine(fault, 'f')).join('\n'), 'hunter2')
  }
  t.end()
})

t.test('faults between rows are reported with those of the rows', (t) => {
  const { faults } = loadConfig(
    file(`suppliers:\n${supplier}${supplier}  - {id: x, endpoints: 3}\nproxy: {headTimeout: 5}\n`),
  )
  t.match(faults, [
    { path: 'suppliers[1].id', line: 4, found: /acme/ },
    { path: 'proxy.headTimeout', found: '5', allowed: /duration/ },
    { path: 'suppliers[2].endpoints' },
  ])
  t.end()
})

t.test('a listener that TLS cannot start with is a fault, not a crash', (t) => {
  const { faults } = loadConfig(file('proxy: {tls: {cert: none, key: none}}\n'))
  t.match(faults, [{ path: 'proxy.tls.key', found: 'a string', allowed: /PEM/ }])
  t.end()
})

t.test('two listeners at one address are a fault', (t) => {
  const faultsOf = (proxy: string, admin: string, notices: string) =>
    loadConfig(
      file(
        `proxy: {listen: "${proxy}"}\nadmin: {listen: "${admin}"}\nnotices: {listen: "${notices}"}\n`,
      ),
    ).faults.map(({ path, found }) => `${path}: ${found}`)
  t.same(faultsOf('127.0.0.1:1', '127.0.0.1:1', '127.0.0.1:2'), [
    'admin.listen: 127.0.0.1:1, which proxy.listen uses',
  ])
  t.same(faultsOf('0.0.0.0:1', '127.0.0.1:2', '[::]:2'), [
    'notices.listen: [::]:2, which admin.listen uses',
  ])
  t.same(faultsOf('127.0.0.1:1', '127.0.0.2:1', '127.0.0.3:1'), [])
  t.same(faultsOf('127.0.0.1:0', '127.0.0.1:0', '127.0.0.1:0'), [], 'the system chooses')
  t.match(loadConfig(file('admin: {listen: "127.0.0.1:8080"}\n')).faults, [
    { path: 'admin.listen' },
  ])
  t.end()
})

t.test('of two shapes of a value, the faults of the intended one are reported', (t) => {
  const { faults } = loadConfig(file('admin: {auth: {issuer: nowhere, role: ""}}\n'))
  t.same(faults.map(({ path }) => path).sort(), ['admin.auth.issuer', 'admin.auth.role'])
  t.end()
})

t.test('a node that only serves or trains needs Redis', (t) => {
  const key = Buffer.alloc(32).toString('base64url')
  const faultsOf = (role: string, store: string) =>
    loadConfig(
      file(
        `node: {role: ${role}}\n${store}opd: {keys: [{id: 1, secret: ${key}}]}\nsuppliers:\n${supplier}`,
      ),
    ).faults
  for (const role of ['serve', 'train']) {
    for (const store of ['', 'store: {database: "postgres://127.0.0.1/b"}\n'])
      t.match(faultsOf(role, store), [{ path: 'node.role', found: /without store.redis/ }])
    t.same(faultsOf(role, 'store: {redis: "redis://127.0.0.1"}\n'), [])
  }
  t.same(faultsOf('all', ''), [])
  t.end()
})

t.test('what one reader of addresses takes and another does not is a fault', (t) => {
  const wrong = ['10', '10/8', '1.2', '010.0.0.1', '::1%eth0', '1.2.3.4/33', '1.2.3.4/', '::1/129']
  const right = ['10.0.0.0/8', '1.2.3.4', '::1', 'fe80::/10', '::ffff:1.2.3.4', '::/0']
  const list = [...wrong, ...right].map((range) => `"${range}"`).join(', ')
  const { faults } = loadConfig(file(`proxy: {trustedProxies: [${list}]}\n`))
  t.same(
    faults.map(({ found }) => JSON.parse(found)),
    wrong,
  )
  t.end()
})

t.test('the ledger is kept for as long as a win may be reported again', (t) => {
  const faultsOf = (text: string) => loadConfig(file(text)).faults
  t.match(faultsOf('store: {retentionDays: 3}\nopd: {contextTtl: 73h}\n'), [
    { path: 'store.retentionDays', found: '3 days, less than opd.contextTtl' },
  ])
  t.same(faultsOf('store: {retentionDays: 3}\nopd: {contextTtl: 72h}\n'), [])
  t.same(faultsOf('store: {retentionDays: 3}\n'), [])
  t.end()
})

t.test('files that are no YAML map, or none at all, are a fault', (t) => {
  for (const text of [
    '',
    '# nothing',
    '[1, 2]',
    'a: 1\na: 2\n',
    '\t- x',
    'a: &a [*a, *a]',
    'proxy: 3',
  ])
    t.ok(loadConfig(file(text)).faults.length > 0, JSON.stringify(text))
  t.match(loadConfig(join(folder, 'none.yaml')).faults[0], { found: /ENOENT/ })
  t.end()
})

t.test('several nodes need keys of their own choice', (t) => {
  const key = 'A'.repeat(43)
  for (const store of ['redis: "redis://r"', 'database: "postgres://p/b"']) {
    const text = `store: {${store}}\nsuppliers:\n${supplier}`
    t.same(
      loadConfig(file(text)).faults.map(({ path }) => path),
      ['opd.keys'],
      store,
    )
    t.same(loadConfig(file(`${text}opd: {keys: [{id: 1, secret: ${key}}]}\n`)).faults, [])
  }
  t.same(loadConfig(file(`suppliers:\n${supplier}`)).faults, [])
  t.end()
})

t.test('a name with control characters, and a URL with port 0, are refused', (t) => {
  const { faults } = loadConfig(
    file(
      'suppliers:\n  - {id: a, name: "a\\u0000b", name_external: "a\\nb", endpoints: ["http://x:0/"]}\n',
    ),
  )
  t.match(faults, [
    { path: 'suppliers[0].name', allowed: 'text without control characters' },
    { path: 'suppliers[0].name_external', allowed: 'text without control characters' },
    { path: 'suppliers[0].endpoints[0]', found: '"http://x:0/"', allowed: /its port not 0/ },
  ])
  t.end()
})

t.test('a number where a text is wanted wants quotes', (t) => {
  const { faults } = loadConfig(
    file('suppliers:\n  - {id: 17, name: true, endpoints: [http://x/]}\n'),
  )
  t.match(faults, [
    { path: 'suppliers[0].id', found: '17', allowed: 'string: write it in quotes' },
    { path: 'suppliers[0].name', found: 'true', allowed: 'string: write it in quotes' },
  ])
  const { config } = loadConfig(file('suppliers:\n  - {id: "17", endpoints: [http://x/]}\n'))
  t.equal(config?.suppliers[0]?.id, '17')
  t.end()
})

t.test('values of an opd block that are seldom meant are warned of', (t) => {
  const warned = (opd: string) =>
    warningsOf(
      loadConfig(file(`proxy: {listen: "127.0.0.1:0"}\nsuppliers:\n${supplier}    opd: {${opd}}\n`))
        .config!,
    ).map((text) => /opd\.(\w+)/.exec(text)?.[1])
  for (const [opd, ...wanted] of [
    ['enabled: true'],
    ['enabled: true, holdout: 0', 'holdout'],
    ['enabled: shadow, holdout: 0, minSpend: 0', 'holdout'],
    ['enabled: true, holdout: 0, minWinRate: 0, minSpend: 0'],
    ['enabled: true, targetMargin: 0.2', 'targetMargin'],
    ['enabled: true, mode: margin, targetMargin: 0.2'],
    ['enabled: true, explore: 0.2'],
    ['enabled: true, explore: 1, share: 0', 'explore', 'share'],
    ['enabled: false, explore: 1, share: 0, holdout: 0'],
  ] as const)
    t.same(warned(opd), wanted, opd)
  t.end()
})

t.test('callers that may be anyone are warned of where the listener is not loopback', (t) => {
  const warned = (listen: string, callers: string) =>
    warningsOf(
      loadConfig(file(`proxy: {listen: "${listen}"}\nsuppliers:\n${supplier}${callers}`)).config!,
    ).length
  t.equal(warned('0.0.0.0:8080', ''), 1)
  t.equal(warned('[::]:8080', ''), 1)
  t.equal(warned('127.0.0.1:8080', ''), 0)
  t.equal(warned('[::1]:8080', ''), 0)
  t.equal(warned('0.0.0.0:8080', '    callers: {cidrs: [10.0.0.0/8]}\n'), 0)
  t.equal(warned('0.0.0.0:8080', '    callers: {headers: {x-key: k}}\n'), 0)
  t.end()
})

t.test(
  'a supplier that nothing can be asked of is warned of, one without endpoints is not',
  (t) => {
    const warned = (more: string) => {
      const { config, faults } = loadConfig(file(`suppliers: [{id: acme${more}}]\n`))
      t.same(faults, [])
      return warningsOf(config!)
    }
    t.match(warned(''), [/acme: neither endpoints nor opd/])
    t.match(warned(', endpoints: []'), [/acme: neither endpoints nor opd/])
    t.same(warned(', opd: {enabled: true}'), [])
    t.end()
  },
)
