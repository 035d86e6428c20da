/** The figures that alerts compare with limits: those of OPD, of certificates, of the disk and of PostgreSQL. */
import { Registry } from 'prom-client'
import t from 'tap'
import { bindOperationMetrics } from '../../service/operation-metrics.ts'
import { certificate } from '../support/certificate.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, sumOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const spans = { exported: 0, refused: 0, dropped: 0, limited: 0 }

const key = Buffer.alloc(32, 9).toString('base64url')

t.test('a node on PostgreSQL exports its limits', { skip: postgresAbsent }, async (t) => {
  const [supplier, postgres] = await Promise.all([echoSupplier(), startPostgres()])
  const node = await serveNode({
    endpoint: supplier.url,
    auth: 'none',
    more: `store: {database: "${postgres.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
    suppliers: ['id: acme, opd: {enabled: true, minWinRate: 0.85}', 'id: off'],
  })
  t.teardown(async () => {
    await node.stop()
    await Promise.all([supplier.close(), postgres.close()])
  })
  const limit = (kind: string) => `bidweir_opd_limit{ssp="acme",kind="${kind}"}`
  let metrics = await node.metrics()
  t.equal(metrics.get(limit('minWinRate')), 0.85)
  t.equal(metrics.get(limit('minSpend')), 0.97)
  t.equal(sumOf(metrics, 'bidweir_opd_limit', 'ssp="off"'), 0, 'OPD is off')
  // each scrape has what the one before has started to read
  await until(async () => {
    metrics = await node.metrics()
    return metrics.has('bidweir_postgres_connections') && metrics.has('bidweir_state_free_bytes')
  })
  const used = metrics.get('bidweir_postgres_connections')!
  const most = metrics.get('bidweir_postgres_connections_limit')!
  t.ok(used >= 1 && used <= most, `${used} of ${most}`)
  const free = metrics.get('bidweir_state_free_bytes')!
  t.ok(free > 0 && free <= metrics.get('bidweir_state_size_bytes')!)
})

const pair = certificate('listener')

t.test(
  'the expiry of the certificates of proxy.tls follows a reload',
  { skip: pair === null && 'openssl not found' },
  async (t) => {
    const name = 'bidweir_listener_certificate_expiry_timestamp_seconds'
    const registry = new Registry()
    let tls: { cert: string; clientCa?: string } | undefined
    const log = { info() {}, warn() {}, error() {} }
    bindOperationMetrics(registry, {
      opdLimits: () => [],
      listenerTls: () => tls,
      spans,
      stateDir: t.testdir({}),
      connections: async () => null,
      log,
    })
    const expiries = async () =>
      new Map(
        (await registry.getMetricsAsJSON())
          .find((metric) => metric.name === name)!
          .values.map(({ labels, value }) => [labels['certificate'], value]),
      )
    t.equal((await expiries()).size, 0, 'without TLS there is none')
    tls = { cert: pair!.cert }
    const days = (seconds: number | undefined) =>
      Math.round(seconds! / 86_400 - Date.now() / 8.64e7)
    t.same([...(await expiries()).keys()], ['server'])
    t.equal(days((await expiries()).get('server')), 1)
    tls = { cert: pair!.cert, clientCa: certificate('authority')!.cert }
    t.same([...(await expiries()).keys()], ['server', 'client_ca'])
  },
)

t.test('figures that cannot be read are absent, and the first failure is logged', async (t) => {
  const registry = new Registry()
  const warnings: string[] = []
  const log = { info() {}, warn: (_: object, text: string) => warnings.push(text), error() {} }
  bindOperationMetrics(registry, {
    opdLimits: () => [],
    listenerTls: () => undefined,
    spans,
    stateDir: `${t.testdir({})}/absent`,
    connections: async () => {
      throw new Error('away')
    },
    log,
  })
  let scrapes = 0
  await until(async () => {
    scrapes += 1
    const text = await registry.metrics()
    t.notMatch(text, /^bidweir_(state|postgres)\w+ /m)
    return scrapes > 3 && warnings.length >= 2
  })
  t.same(warnings.toSorted(), [
    'the connections of PostgreSQL were not counted',
    'the disk of stateDir was not read',
  ])
})
