/**
 * A win that is in the ledger is learned and counted once, whatever response its caller received: an answer of the database is lost,
 * or the node is killed.
 */
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { type ServedNode, serveNode } from '../support/served-node.ts'
import { type Answered, echoSupplier, startNode, sumOf } from '../support/service-node.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')
const win = ({ id, svcOpd }: Answered) => ({ bid_id: id, price: '0.5', svc_opd: svcOpd })

/** The wins of all nodes, as the metrics, the console and the report have them. */
async function figures(nodes: readonly ServedNode[]) {
  const texts = await Promise.all(nodes.map((node) => node.metrics()))
  const total = (name: string) => texts.reduce((sum, text) => sum + sumOf(text, name), 0)
  const [report] = await nodes[0]!.report('wins')
  return {
    counted: total('bidweir_impressions_total'),
    arms: total('bidweir_arm_wins_total'),
    margins: total('bidweir_margin_count'),
    report: Number(report?.['wins']),
  }
}

t.test('PostgreSQL: answers of commits are lost', { skip: postgresAbsent }, async (t) => {
  const supplier = await echoSupplier()
  const postgres = await startPostgres()
  const { port } = new URL(postgres.url)
  const link = await tcpProxy(Number(port))
  const start = (url: string) =>
    serveNode({
      endpoint: supplier.url,
      auth: 'none',
      more: `store: {database: "${url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    })
  const one = await start(postgres.url.replace(`:${port}`, `:${link.port}`))
  const two = await start(postgres.url)
  t.teardown(async () => {
    await Promise.all([one.stop(), two.stop()])
    await Promise.all([supplier.close(), link.close(), postgres.close()])
  })

  for (let n = 0; n < 3; n++) {
    const [warm, lost] = [await one.bid({ id: `warm-${n}` }), await one.bid({ id: `lost-${n}` })]
    // so that a connection is open
    t.match(await one.notify(win(warm)), { http: 200, body: { status: 'attributed' } })
    link.deafen(true)
    const answer = await one.notify(win(lost))
    t.equal(answer.http, 503)
    link.deafen(false)
    const node = n % 2 === 0 ? two : one
    await until(async () => (await node.notify(win(lost))).http === 200)
  }
  const all = { counted: 0, arms: 6, margins: 6, report: 6 }
  await until(async () => (await figures([one, two])).arms >= all.arms, { what: 'six wins' })
  t.match(await figures([one, two]), { ...all, counted: Number })
  const attributed = async (node: ServedNode) =>
    sumOf(await node.metrics(), 'bidweir_impressions_total', 'status="attributed"')
  t.equal((await attributed(one)) + (await attributed(two)), 6)
})

t.test('SQLite: the node is killed as soon as the win is on disk', async (t) => {
  const supplier = await echoSupplier()
  const options = {
    endpoint: supplier.url,
    auth: 'none' as const,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
  }
  let node = await startNode(options)
  const { folder } = node
  t.teardown(async () => {
    await node.stop('SIGKILL')
    await supplier.close()
  })
  const bids: Answered[] = []
  for (let n = 0; n < 20; n++) bids.push(await node.bid({ id: `k${n}` }))
  const sent = bids.map((bid) => node.notify(win(bid)).catch(() => null))
  await Promise.race(sent)
  await node.stop('SIGKILL')
  await Promise.all(sent)
  node = await startNode({ ...options, folder })
  const { report } = await figures([node])
  t.ok(report > 0)
  // those that were deleted from the journal had followed before
  const recovered = async () => sumOf(await node.metrics(), 'bidweir_outcomes_recovered_total')
  await until(async () => (await recovered()) > 0)
  t.equal((await figures([node])).arms, await recovered())
  for (const bid of bids) t.equal((await node.notify(win(bid))).http, 200)
  t.match(await figures([node]), { report: 20, arms: 20 - report + (await recovered()) })
})
