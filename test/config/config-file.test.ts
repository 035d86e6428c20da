import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { faultLine, loadConfig } from '../../config-file.ts'

const folder = mkdtempSync(join(tmpdir(), 'bidweir-config-'))
let files = 0
function file(text: string, name = `c${++files}.yaml`): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}
const supplier = '  - id: acme\n    endpoints: [https://bid.acme.example/openrtb]\n'

t.test('defaults are those of the README', (t) => {
  const { config, faults } = loadConfig(file(`suppliers:\n${supplier}    opd: {enabled: true}\n`))
  t.same(faults, [])
  t.match(config, {
    location: 'local',
    proxy: {
      listen: '0.0.0.0:8080',
      maxRequestBytes: 1048576,
      maxConnectionAge: 600_000,
      maxRewriteBytes: 4194304,
      maxConnections: 20_000,
      headTimeout: 5000,
      recompress: 'same',
    },
    opd: { attributionWindow: 1_800_000, contextTtl: 172_800_000 },
    drain: { grace: 15_000, timeout: 45_000 },
    currency: { base: 'USD' },
  })
  t.match(config?.suppliers[0], {
    timeout: 120,
    tmaxMargin: 10,
    onFailure: 'no-bid',
    notices: 'win',
    opd: {
      enabled: true,
      share: 1,
      mode: 'revenue',
      targetMargin: 0.15,
      minFactor: 0.7,
      explore: 0.005,
      clientFee: 0,
      holdout: 0.02,
      minWinRate: 0.97,
      minSpend: 0.97,
      audio: false,
      internalIds: false,
      priceDsp: false,
      deals: true,
    },
  })
  t.end()
})

t.test(
  'every fault is told at once, with its path, its line, what was found and what is allowed',
  (t) => {
    const { config, faults } = loadConfig(
      file(`proxy:
  maxConnections: many
  colour: red
suppliers:
  - id: Acme!
    endpoints: [ftp://x]
    timeout: fast
  - endpoints: []
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
      /suppliers\[1\].id: found nothing/,
      /suppliers\[1\].endpoints: found \[\], allowed: at least 1 entries/,
    ])
      t.ok(
        lines.some((line) => wanted.test(line)),
        String(wanted),
      )
    t.end()
  },
)

t.test('an invalid opd block switches OPD off for that supplier alone', (t) => {
  const { config, faults, invalidOpd } = loadConfig(
    file(
      `suppliers:\n${supplier}    opd: {enabled: true, minFactor: 3, what: 1}\n  - id: other\n    endpoints: [http://o]\n    opd: {enabled: true}\n`,
    ),
  )
  t.equal(faults.length, 2)
  t.same([...invalidOpd], ['acme'])
  t.equal(config?.suppliers[0]?.opd, undefined)
  t.equal(config?.suppliers[1]?.opd?.enabled, true)
  t.end()
})

t.test('values come from the environment and from files', (t) => {
  process.env['TEST_FACTOR'] = '0.8'
  process.env['TEST_ON'] = 'true'
  process.env['TEST_HOST'] = 'bid.example'
  file(`${'A'.repeat(43)}\n`, 'key')
  file('{"base":"USD","rates":{"EUR":0.92}}', 'rates.json')
  const { config, faults, files } = loadConfig(
    file(`opd: {keys: [{id: 1, secret: {file: key}}]}
currency: {rates: {file: rates.json}}
suppliers:
  - id: acme
    endpoints: ["https://\${TEST_HOST}/x"]
    opd: {enabled: "\${TEST_ON}", minFactor: "\${TEST_FACTOR}"}
`),
  )
  t.same(faults, [])
  t.equal(config?.opd.keys?.[0]?.secret, 'A'.repeat(43))
  t.equal(config?.currency.rates?.rates['EUR'], 0.92)
  t.same(config?.suppliers[0]?.endpoints, ['https://bid.example/x'])
  t.match(config?.suppliers[0]?.opd, { enabled: true, minFactor: 0.8 })
  t.equal(files.length, 3, 'all of them are watched')
  t.end()
})

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

t.test('secrets are not repeated wherever the fault beside them stands', (t) => {
  const secret = 'hunter2'.repeat(7)
  for (const text of [
    `opd: {keys: [{id: 1, secret: ${secret}}, {id: 1, secret: ${secret}}]}`,
    `opd: {keys: {id: 1, secret: ${secret}}}`,
    `admin: {auth: {issuer: "https://i", embedded: {adminPassword: ${secret}}}}`,
    `store: postgres://user:${secret}@db/x`,
    `suppliers: [{id: a, endpoints: ["http://user:${secret}@x/"]}]`,
    `suppliers: [{id: a, endpoints: ["http://x/"], callers: {headers: {a: [${secret}]}}}]`,
    `proxy: {tls: {key: ${secret}, cert: none}}`,
  ]) {
    const { faults } = loadConfig(file(text))
    t.ok(faults.length > 0)
    t.notMatch(faults.map((fault) => faultLine(fault, 'f')).join('\n'), 'hunter2')
  }
  t.end()
})

t.test('faults between rows are told beside those of the rows', (t) => {
  const { faults } = loadConfig(
    file(`suppliers:\n${supplier}${supplier}  - {id: x, endpoints: []}\nproxy: {headTimeout: 5}\n`),
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

t.test('of two shapes of a value the faults of the one that is meant are told', (t) => {
  const { faults } = loadConfig(file('admin: {auth: {issuer: nowhere, role: ""}}\n'))
  t.same(faults.map(({ path }) => path).sort(), ['admin.auth.issuer', 'admin.auth.role'])
  t.end()
})

t.test('variables stand in any place, also between braces, also for numbers and sizes', (t) => {
  process.env['TEST_COUNT'] = '55'
  process.env['TEST_BYTES'] = '65536'
  const { config, faults } = loadConfig(
    file('proxy: {maxConnections: ${TEST_COUNT}, maxRequestBytes: ${TEST_BYTES}}\n'),
  )
  t.same(faults, [])
  t.match(config?.proxy, { maxConnections: 55, maxRequestBytes: 65536 })
  const unset = loadConfig(file('proxy: {maxConnections: ${TEST_UNSET}}\n${TEST_COUNT}: 1\n'))
  t.match(unset.faults, [
    { path: 'proxy.maxConnections', line: 1, found: '${TEST_UNSET}, which is not set' },
    { path: '${TEST_COUNT}', found: 'a key that is not known' },
  ])
  t.end()
})

t.test('anchors, aliases and merge keys', (t) => {
  const many = Array.from({ length: 300 }, (_, n) => `  - {<<: *all, id: s${n}}\n`).join('')
  const { config, faults } = loadConfig(
    file(`suppliers:\n  - &all {id: a, endpoints: ["http://x/"], timeout: 50ms}\n${many}`),
  )
  t.same(faults, [])
  t.match(config?.suppliers[300], { id: 's299', timeout: 50 })
  const levels = ['a: &a [x, x, x, x, x, x, x, x, x]']
  for (const [at, name] of [...'bcdefghij'].entries())
    levels.push(`${name}: &${name} [${Array(9).fill(`*${'abcdefghi'[at]}`).join(', ')}]`)
  t.match(loadConfig(file(levels.join('\n'))).faults, [{ found: /alias/ }])
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
  const { faults } = loadConfig(file(`store: {redis: "redis://r"}\nsuppliers:\n${supplier}`))
  t.equal(faults[0]?.path, 'opd.keys')
  t.end()
})
