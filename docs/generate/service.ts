/**
 * What a running service shows: its OpenAPI document and its metrics. One supplier, one bid, one win notice.
 */

import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Registry } from 'prom-client'
import { metricsOf } from '../../opd/base/metrics.ts'
import { openAdminPlane } from '../../service/admin-plane.ts'
import type { ConfigRef } from '../../service/bid-path.ts'
import { activeSuppliers } from '../../service/bid-path.ts'
import { check } from '../../service/config/check.ts'
import type { Config } from '../../service/config/schema.ts'
import { referenceRules } from '../../service/config/supplier-block.ts'
import { newKey } from '../../service/context-keys.ts'
import { type Components, openComponents } from '../../service/data-plane.ts'
import { supplierRules } from '../../service/supplier-rules.ts'
import { code, page, table } from './markdown.ts'

interface Operation {
  summary?: string
  security?: { bearer?: string[] }[]
  responses: Record<string, unknown>
}

interface ApiDocument {
  info: { description: string }
  paths: Record<string, Record<string, Operation>>
}

function roleOf({ security = [] }: Operation): string {
  const [role] = security[0]?.bearer ?? []
  return role === undefined ? '' : code(role)
}

export function api({ info, paths }: ApiDocument): string {
  const rows = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => [
      method.toUpperCase(),
      code(path),
      roleOf(operation),
      operation.summary ?? '',
      Object.keys(operation.responses)
        .filter((status) => status !== '431')
        .join(', '),
    ]),
  )
  rows.sort(([, one = ''], [, other = '']) => (one < other ? -1 : Number(one > other)))
  return page(
    'API',
    `${info.description} The whole document is at \`/api/openapi.json\`, and as a page at \`/api/docs\`.`,
    'Each role includes those before it: `viewer`, `api`, `operator`. Calls without a role need no access token; win notices need the credential of `admin.impressions.auth`. Every call may be answered 431: its head is longer than 32 KiB.',
    table(['method', 'path', 'role', 'summary', 'statuses'], rows),
  )
}

interface MetricRow {
  name: string
  type: string
  labels: string[]
  help: string
}

const tableOf = (rows: readonly MetricRow[]) =>
  table(
    ['name', 'type', 'labels', 'meaning'],
    [...rows]
      .sort((one, other) => (one.name < other.name ? -1 : 1))
      .map(({ name, type, labels, help }) => [code(name), type, labels.map(code).join(', '), help]),
  )

export function metrics(rows: readonly MetricRow[]): string {
  const ours = rows.filter(({ name }) => name.startsWith('bidweir_'))
  const ofProcess = rows.filter(({ name }) => !name.startsWith('bidweir_'))
  return page(
    'Metrics',
    '`GET /metrics` on the admin listener. Durations are in seconds, sizes in bytes, prices in CPM of the base currency. Counters and sums are those of one node since its start, win rates, kept wins, kept spend and uplift those of all nodes over the last seven days; [monitoring](../operations/monitoring.md) has the queries over all nodes.',
    'Values of `outcome`, `reason`, `status`, `context` and `guard`: [reasons](reasons.md). The label `arm` is `holdout`, or `optimised` for treated and explored bids together. `ssp="_other"` are suppliers that are not among the busiest.',
    tableOf(ours),
    '## The process',
    tableOf(ofProcess),
  )
}

const silent = { level: 'info' as const, info() {}, warn() {}, error() {} }

function configOf(stateDir: string, endpoint: string): Config {
  const { config, faults } = check(
    {
      stateDir,
      // No worker is started: their metrics are registered all the same.
      proxy: { listen: '127.0.0.1:0', workers: 2 },
      admin: { listen: '127.0.0.1:0', impressions: { auth: 'none' } },
      // nothing listens there: its metrics are registered all the same
      store: { redis: 'redis://127.0.0.1:1' },
      opd: {
        keys: [{ id: 1, secret: newKey() }],
        attributionWindow: '1ms',
        decisionLog: { path: 'decisions.ndjson' },
      },
      events: { kafka: { brokers: ['127.0.0.1:1'] } },
      agent: { listen: '127.0.0.1:0' },
      currency: { rates: { base: 'USD', rates: { EUR: 0.9 }, asOf: '2026-01-01' } },
      suppliers: [
        { id: 'acme', endpoints: [endpoint], timeout: '5s', opd: { enabled: true, holdout: 0 } },
      ],
    },
    stateDir,
  )
  if (config === null) throw new Error(JSON.stringify(faults))
  return config
}

const imp = { id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }
const bidRequest = { id: 'r', imp: [imp], site: { domain: 'news.example', publisher: { id: 'p' } } }
const bid = { id: 'b', impid: '1', price: 2, nurl: 'svc_opd=${SVC_OPD_CONTEXT}' }
const bidResponse = JSON.stringify({ id: 'r', cur: 'USD', seatbid: [{ seat: 's', bid: [bid] }] })

async function createSupplier() {
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => response.setHeader('content-type', 'application/json').end(bidResponse))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` }
}

/** A bid, its win notice (late, and above the price sent), a loss notice, and a call without a token. */
async function play(proxyUrl: string, adminUrl: string): Promise<void> {
  const response = await fetch(`${proxyUrl}/bid/acme`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(bidRequest),
  })
  const { seatbid } = (await response.json()) as { seatbid: [{ bid: [typeof bid] }] }
  const { nurl, price } = seatbid[0].bid[0]
  const query = new URLSearchParams({
    ...{ ssp: 'acme', bid_id: 'b', price: (price * 1.2).toFixed(6) },
    svc_opd: nurl.replace('svc_opd=', ''),
  })
  await (await fetch(`${adminUrl}/opd/imp?${query}`)).arrayBuffer()
  await (await fetch(`${adminUrl}/opd/loss?bid_id=unknown`)).arrayBuffer()
  const refused = await fetch(`${adminUrl}/api/svc/ssp/`)
  await refused.arrayBuffer()
}

/** Counts each kind of event, because a series exists only after its first event. */
function countEverything({ proxy, engine }: Components): void {
  const { metrics } = proxy.suppliers.get('acme')!
  metrics.requests.fill(1)
  metrics.replays = 1
  proxy.setDirectory(
    () => ({ inactiveSeats: new Set(), allotment: { clientQps: 1, active: true } }),
    1,
  )
  const supplier = engine.stats.supplierStats('acme')
  supplier.countUnmodified('no_macro')
  const stats = supplier.modes.revenue
  stats.learnerErrors = 1
  stats.contextsCut = 1
  stats.exposuresLeftOut = 1
  stats.setControl('silence', 1)
  for (const arm of ['holdout', 'treated'] as const)
    for (let count = 0; count < 200; count++) {
      stats.countPriced(arm, 2, 1)
      stats.countWin(arm)
      stats.countMoney(arm, 1, 1)
    }
}

/** A connection that is refused: its bytes are not HTTP. */
async function sendGarbage(port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1', () => socket.write('garbage\r\n\r\n'))
  await once(socket.resume(), 'close')
}

async function metricRows(registry: Registry): Promise<MetricRow[]> {
  const rows: MetricRow[] = []
  for (const metric of metricsOf(registry)) {
    const { values = [] } = await metric.get()
    const labels = new Set(values.flatMap((value) => Object.keys(value.labels)))
    for (const label of metric.labelNames ?? []) labels.add(label)
    for (const ofType of ['le', 'quantile']) labels.delete(ofType)
    const { name, type, help } = metric
    rows.push({ name, type, help, labels: [...labels].sort() })
  }
  return rows
}

export async function inspectService(): Promise<{ api: ApiDocument; metrics: MetricRow[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-docs-'))
  const supplier = await createSupplier()
  const config = configOf(folder, supplier.url)
  const current: ConfigRef = { config, active: activeSuppliers(config.suppliers, new Set()) }
  const references = referenceRules(
    folder,
    () => [],
    () => false,
  )
  const components = await openComponents(current, references, silent, null)
  const rules = {
    ...supplierRules(() => ({ config, fileOf: new Map() }), null, references),
    applied: async () => {},
  }
  const adminPlane = await openAdminPlane(current, components, rules, () => [], silent)
  try {
    const adminUrl = `http://127.0.0.1:${(await adminPlane.listen()).port}`
    const { port } = await components.proxy.listen()
    await play(`http://127.0.0.1:${port}`, adminUrl)
    await sendGarbage(port)
    countEverything(components)
    const document = await fetch(`${adminUrl}/api/openapi.json`)
    return {
      api: (await document.json()) as ApiDocument,
      metrics: await metricRows(components.registry),
    }
  } finally {
    components.proxy.drain()
    supplier.server.close()
    await components.proxy.close()
    await adminPlane.close()
    await components.close()
    adminPlane.end()
    await components.store.close()
    rmSync(folder, { recursive: true })
  }
}
