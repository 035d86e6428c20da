import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../service/config/load.ts'
import { sharedBidTtl } from '../../../service/runtime-config.ts'
import { file, folder, supplier } from '../../support/config.ts'

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
      maxHeldBytes: 'auto',
      maxConnections: 20_000,
      headTimeout: 5000,
      recompress: 'same',
    },
    admin: {
      listen: '127.0.0.1:8081',
      auth: { embedded: { realm: 'main' } },
      impressions: { auth: 'bearer' },
    },
    stateDir: join(folder, 'data'),
    store: { database: `sqlite:${join(folder, 'data', 'bidweir.db')}`, redis: null },
    opd: { attributionWindow: 1_800_000, contextTtl: 172_800_000, decisionLog: null },
    drain: { grace: 15_000, timeout: 45_000 },
    currency: { base: 'USD' },
  })
  t.match(config?.suppliers[0], {
    timeout: 120,
    tmaxMargin: 10,
    onFailure: 'no-bid',
    notices: 'win',
    callers: { cidrs: [], headers: {} },
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
      exclude: { seats: [], publishers: [], domains: [], apps: [], adomains: [], deals: [] },
    },
  })
  t.end()
})

t.test('what is absent is off: OPD, pass-through, TLS, rates', (t) => {
  const { config } = loadConfig(file(`suppliers:\n${supplier}`))
  const [acme] = config!.suppliers
  t.same([acme?.opd, acme?.passThrough], [undefined, undefined])
  t.same([config!.proxy.tls, config!.currency.rates], [undefined, undefined])
  const named = loadConfig(file(`suppliers:\n${supplier}    opd: {}\n`)).config
  t.equal(named!.suppliers[0]?.opd?.enabled, false)
  t.end()
})

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
  t.equal(files.size, 3, 'all of them are watched')
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
  for (const [index, name] of [...'bcdefghij'].entries())
    levels.push(`${name}: &${name} [${Array(9).fill(`*${'abcdefghi'[index]}`).join(', ')}]`)
  t.match(loadConfig(file(levels.join('\n'))).faults, [{ found: /alias/ }])
  t.end()
})

t.test(
  'a fault of the YAML is reported with its place, beside all other faults that can be read',
  (t) => {
    const faultsOf = (text: string) =>
      loadConfig(file(text)).faults.map(({ path, line, found }) => `${line} ${path}: ${found}`)
    const twice = 'a key that is repeated'
    t.same(
      faultsOf(
        `location: a\nlocation: b\nproxy: {via: 5, via: maybe}\nsuppliers:\n${supplier}    id: b\n`,
      ),
      [
        `2 location: ${twice}`,
        `3 proxy.via: ${twice}`,
        `7 suppliers[0].id: ${twice}`,
        '3 proxy.via: "maybe"',
      ],
    )
    t.same(faultsOf('location: !vault x\nproxy: {via: 5}\n'), [
      '1 location: Unresolved tag: !vault',
      '2 proxy.via: 5',
    ])
    t.same(faultsOf('location: a\n---\nlocation: b\n'), ['2 : a second document'])
    const secret =
      'opd: {keys: [{id: 1, secret: hunter2: 3}]}\nadmin: hunter2: {auth: x, auth: y}\n  hunter2: `hunter2` hunter2\n x: "a" hunter2]\n}hunter2\n'
    t.notMatch(
      JSON.stringify(loadConfig(file(secret))),
      'hunter2',
      'no part of a broken file is said',
    )
    t.same(faultsOf('${A}: 1\n${A}: 2\n')[0], `2 \${A}: ${twice}`)
    t.match(loadConfig(file('location: *nobody\n')).faults, [
      { found: /nobody/, allowed: /anchors above/ },
    ])
    t.end()
  },
)

t.test('a key that is repeated in an opd block switches OPD off for that supplier alone', (t) => {
  const opd = `suppliers:\n${supplier}    opd: {enabled: true, enabled: false}\n`
  const { config, invalidOpd } = loadConfig(file(opd))
  t.same([config?.suppliers[0]?.opd, [...invalidOpd]], [undefined, ['acme']])
  t.end()
})

const minute = 60_000

for (const [bidLog, auth, ttl] of [
  ['', 'bearer', 30 * minute],
  ['', 'context', 30 * minute],
  ['bidLog: {ttl: 5m}', 'context', 5 * minute],
  ['bidLog: {when: bareOnly}', 'bearer', 30 * minute],
  ['bidLog: {when: bareOnly}', 'none', 30 * minute],
  ['bidLog: {when: bareOnly}', 'context', 0],
  ['bidLog: {when: off}', 'bearer', 0],
] as const)
  t.test(`bids are written to Redis: ${bidLog || 'default'}, notices by ${auth}`, (t) => {
    const text = `admin: {impressions: {auth: ${auth}}}\nopd: {${bidLog}}\n`
    t.equal(sharedBidTtl(loadConfig(file(text)).config!), ttl)
    t.end()
  })
