/**
 * Console, metrics and reports show the same kept wins, kept spend and uplift, also after answers were lost, nodes killed and
 * restarted, and notices sent again or late.
 */
import t from 'tap'
import type { LiveSnapshot } from '../../admin/fleet/live-schema.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import type { ServedNode } from '../support/served-node.ts'
import { type Answered, echoSupplier, startNode } from '../support/service-node.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const day = 86_400_000
const key = Buffer.alloc(32, 9).toString('base64url')
const names = ['kept', 'keptSpend', 'uplift'] as const
const metricOf = { kept: 'kept_win_rate', keptSpend: 'kept_spend', uplift: 'uplift' }
const columnOf = { kept: 'kept', keptSpend: 'kept_spend', uplift: 'uplift' }

type Figures = Record<(typeof names)[number], (string | undefined)[]>

/** Value and bounds; sums of doubles depend on their order in the last digits. */
const rounded = (values: unknown[]) =>
  values.map((value) => (typeof value === 'number' ? value.toPrecision(9) : undefined))
const figures = (pick: (name: (typeof names)[number]) => unknown[]) =>
  Object.fromEntries(names.map((name) => [name, rounded(pick(name))])) as Figures

type Node = Pick<ServedNode, 'admin' | 'metrics'>
/** The token of the administrator, whom the first node has made. */
let access = ''
const read = async (node: Node, path: string): Promise<unknown> =>
  (await fetch(node.admin + path, { headers: { authorization: `Bearer ${access}` } })).json()

async function onConsole(node: Node): Promise<Figures> {
  const { integrations } = (await read(node, '/api/svc/live/')) as LiveSnapshot
  const [mode] = integrations[0]!.modes
  return figures((name) => {
    const interval = mode?.[name]
    return [interval?.at, interval?.lower, interval?.upper]
  })
}

async function inMetrics({ metrics }: Node): Promise<Figures> {
  const all = await metrics()
  const value = (name: string) => all.get(`bidweir_${name}{ssp="acme",mode="revenue"}`)
  return figures((name) =>
    ['', '_lower', '_upper'].map((bound) => value(`${metricOf[name]}${bound}`)),
  )
}

async function inReports(node: Node): Promise<Figures> {
  const from = new Date((Math.floor(Date.now() / day) - 6) * day).toISOString()
  const report = async (what: string) =>
    ((await read(node, `/api/svc/reports/${what}?from=${from}`)) as Record<string, unknown>[])[0]
  const [wins, margin] = await Promise.all([report('wins'), report('margin')])
  const row: Record<string, unknown> = { ...wins, ...margin }
  return figures((name) => ['', '_low', '_high'].map((bound) => row[`${columnOf[name]}${bound}`]))
}

/** Waits until console and metrics of each node show what the report does: a node may store its last bids meanwhile. */
async function agree(nodes: Node[]) {
  for (const [n, node] of nodes.entries())
    await until(
      async () => {
        const [shown, counted] = [await onConsole(node), await inMetrics(node)]
        const reported = JSON.stringify(await inReports(nodes[0]!))
        return [shown, counted].every((figures) => JSON.stringify(figures) === reported)
      },
      { what: `the figures of node ${n}` },
    )
}

const win = ({ id, svcOpd }: Answered) => ({ bid_id: id, price: '0.5', svc_opd: svcOpd })

t.test('PostgreSQL', { skip: postgresAbsent }, async (t) => {
  const [supplier, postgres] = await Promise.all([echoSupplier(), startPostgres()])
  const { port } = new URL(postgres.url)
  const link = await tcpProxy(Number(port))
  const start = (url: string, folder?: string) =>
    startNode({
      ...(folder === undefined ? {} : { folder }),
      endpoint: supplier.url,
      auth: 'none',
      more: `store: {database: "${url}"}\nopd: {attributionWindow: 1s, keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0.5, explore: 0}'],
    })
  const one = await start(postgres.url.replace(`:${port}`, `:${link.port}`))
  const two = await start(postgres.url)
  access = await one.login()
  t.teardown(async () => {
    await Promise.all([one.stop('SIGKILL'), two.stop('SIGKILL')])
    await Promise.all([supplier.close(), link.close()])
    await postgres.close()
  })
  const bids: Answered[] = []
  for (let n = 0; n < 60; n++)
    bids.push(await (n % 2 === 0 ? one : two).bid({ id: `b${n}`, price: 1 + (n % 3) }))
  for (const bid of bids.slice(0, 30)) await one.notify(win(bid))
  await agree([two, one])
  const before = await inReports(two)
  t.ok(before.keptSpend[0] !== undefined, 'both arms have won')

  link.deafen(true)
  const lost = await one.notify(win(bids[30]!))
  t.equal(lost.http, 503)
  link.deafen(false)
  await until(async () => (await two.notify(win(bids[30]!))).http === 200)
  const sent = bids.slice(31, 50).map((bid) => one.notify(win(bid)).catch(() => null))
  await Promise.race(sent)
  await one.stop('SIGKILL')
  await Promise.all(sent)
  // a node on PostgreSQL takes over what the killed one left
  await until(async () => (await inReports(two)).kept[0] !== before.kept[0])
  await agree([two])
  for (const bid of bids.slice(30)) t.equal((await two.notify(win(bid))).http, 200)
  const again = await start(postgres.url)
  t.teardown(() => again.stop('SIGKILL'))
  await agree([two, again])
  const from = new Date(Date.now() - day).toISOString()
  const [row] = (await read(two, `/api/svc/reports/discrepancy?from=${from}`)) as [
    { wins: number; late: number },
  ]
  t.equal(row.wins, bids.length)
  t.ok(row.late >= 10, 'those that were sent last were late')

  // sent again, some to each node, and one of them after a restart in order
  const figuresBefore = await inReports(two)
  for (const [n, bid] of bids.entries())
    t.match(await (n % 2 === 0 ? two : again).notify(win(bid)), {
      http: 200,
      body: { status: 'duplicate' },
    })
  await again.stop()
  const restarted = await start(postgres.url, again.folder)
  t.teardown(() => restarted.stop('SIGKILL'))
  t.same(await inReports(two), figuresBefore)
  await agree([two, restarted])
})
