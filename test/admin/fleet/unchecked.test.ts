/**
 * The four faults with which the money of a supplier cannot be trusted: board, funnel, alert, guard, reports and the explanation of
 * a bid say the same of each, since they read one list of rules.
 */
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import type { AlertsAnswer } from '../../../admin/fleet/alerts-route.ts'
import type { Funnel } from '../../../admin/fleet/funnel-route.ts'
import type { LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import type { ReportRow } from '../../../admin/reports/columns.ts'
import { newFolder } from '../../support/process.ts'
import { type Answered, echoSupplier, startNode } from '../../support/service-node.ts'
import { startLimit, until } from '../../support/until.ts'

const opd = 'opd: {enabled: true, holdout: .1}'

/**
 * By supplier. `proven`: what it earned can be checked. `acts`: its prices are not lowered, since no win is recorded. Bids without
 * the macro are never lowered, and a part of the notices may be refused.
 */
const faults = {
  'no-macro': { rule: 'no_macro', step: 'macro', proven: true, acts: false },
  silent: { rule: 'no_notices', step: 'notices', proven: false, acts: true },
  refused: { rule: 'notices_refused', step: 'attributed', proven: false, acts: true },
  partly: { rule: 'notices_refused', step: 'attributed', proven: false, acts: false },
  low: { rule: 'price_too_low', step: 'plausible', proven: false, acts: false },
} as const
/** Milliseconds that an alert must have lasted before the guard acts, and more. */
const long = 3_600_000

t.test('one fault is the same everywhere', async (t) => {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const node = await startNode({
    folder,
    endpoint: supplier.url,
    suppliers: ['fine', ...Object.keys(faults)].map((id) => `id: ${id}, ${opd}`),
    more: `store: {database: "sqlite:${folder}/b.db"}\nopd: {attributionWindow: 1s}`,
    // a second process prices bids too
    workers: 2,
  })
  t.teardown(async () => {
    await node.bidweir.stop()
    await supplier.close()
  })
  let asked = 0
  const decide = async (ssp: string, count: number) => {
    const answered: Answered[] = []
    for (let left = count; left > 0; left -= 20) {
      const ids = Array.from({ length: Math.min(20, left) }, () => `${ssp}-${asked++}`)
      answered.push(...(await node.bids(ids.map((id) => ({ id, ssp, price: 2 })))))
    }
    return answered
  }
  const notify = async (
    { id, out, svcOpd }: Answered,
    ssp: string,
    factor = 1,
    hasContext = true,
  ) => {
    const price = (Number(out) * factor).toFixed(6)
    const context = hasContext ? { svc_opd: svcOpd } : {}
    const { http } = await node.notify({ bid_id: id, ssp, price, ...context })
    t.equal(http, hasContext ? 200 : 401)
  }
  for (const bid of (await decide('fine', 240)).slice(0, 30)) await notify(bid, 'fine')
  for (const bid of (await decide('low', 240)).slice(0, 30)) await notify(bid, 'low', 0.001)
  for (const bid of (await decide('refused', 240)).slice(0, 30))
    await notify(bid, 'refused', 1, false)
  for (const [index, bid] of (await decide('partly', 240)).slice(0, 40).entries())
    await notify(bid, 'partly', 1, index % 2 === 0)
  await decide('silent', 240)
  const bare = { id: 'x', impid: '1', price: 1, nurl: 'https://t.example/w' }
  for (let index = 0; index < 30; index++) {
    const url = `http://127.0.0.1:${node.bidweir.proxyPort}/bid/no-macro`
    const body = JSON.stringify({ id: 'r', imp: [{ id: '1' }], ext: { bids: [bare] } })
    const response = await fetch(url, { method: 'POST', body })
    t.match(await response.json(), { seatbid: [{ bid: [{ price: 1 }] }] }, 'it keeps its price')
  }
  const read = async <Body>(path: string) =>
    (await (await node.api(`/api/svc/${path}`)).json()) as Body
  const open = async () => (await read<AlertsAnswer>('alerts/?state=open')).alerts
  const expected = Object.entries(faults).map(([ssp, { rule }]) => `${ssp} ${rule}`)
  const named = (alerts: AlertsAnswer['alerts']) =>
    alerts
      .map(({ supplier: ssp, rule }) => `${ssp} ${rule}`)
      .filter((name) => expected.includes(name))
  await until(async () => named(await open()).length === expected.length, { limit: startLimit })
  // Each price by chance: of 100 bids 5 are explored on average, and now and then none.
  const isLowered = async (ssp: string) => (await decide(ssp, 100)).some(({ price }) => price < 2)
  await until(() => isLowered('silent'))
  t.pass('notices may still come')
  const database = new DatabaseSync(`${folder}/b.db`)
  database.exec(`pragma busy_timeout = 10000; update alerts set began = began - ${long}`)
  database.close()
  const acting = async () =>
    (await read<LiveSnapshot>('live/')).integrations.flatMap(({ ssp, health }) =>
      health.reasons.some(({ rule }) => rule === 'guard_unchecked') ? [ssp] : [],
    )
  const guarded = Object.entries(faults).flatMap(([ssp, { acts }]) => (acts ? [ssp] : []))
  await until(async () => (await acting()).length === guarded.length)
  t.same((await acting()).toSorted(), guarded.toSorted(), 'the board says that the guard acts')

  const alerts = await open()
  const { integrations } = await read<LiveSnapshot>('live/')
  const funnel = await read<Funnel>('funnel/')
  for (const [ssp, { rule, step }] of Object.entries(faults)) {
    const reason = integrations
      .find((integration) => integration.ssp === ssp)!
      .health.reasons.find((found) => found.rule === rule)
    t.match(reason, { level: 'warn', fix: /./ }, `${ssp}: the board`)
    const alert = alerts.find((found) => found.supplier === ssp && found.rule === rule)
    t.match(alert, { level: 'warn', fix: reason!.fix }, `${ssp}: the alert`)
    const shown = funnel.suppliers.find((found) => found.ssp === ssp)!
    t.match(shown.faults, [{ step, text: reason!.text, fix: reason!.fix }], `${ssp}: Go live`)
  }
  const unproven = Object.entries(faults).flatMap(([ssp, { proven }]) => (proven ? [] : [ssp]))
  t.same(funnel.unchecked.toSorted(), unproven.toSorted(), 'what OPD earned leaves them out')
  const explained = async ({ id, svcOpd }: Answered) =>
    read<{ arm: string; reason: string }>(
      `decisions/${encodeURIComponent(svcOpd)}?bid_id=${encodeURIComponent(id)}`,
    )
  for (const ssp of guarded) {
    const bids = await decide(ssp, 40)
    t.same([...new Set(bids.map(({ price }) => price))], [2], `${ssp}: no price is lowered`)
    t.match(await explained(bids[0]!), { arm: 'unchecked', reason: /guard.*prove nothing/ })
  }
  for (const ssp of ['fine', 'partly', 'low']) {
    await until(() => isLowered(ssp))
    t.pass(`${ssp}: prices are lowered`)
  }

  const day = new Date().toISOString().slice(0, 10)
  const rows = await read<ReportRow[]>(`reports/summary?by=supplier&from=${day}`)
  const rowOf = (ssp: string) => rows.find(({ key }) => key === ssp)!
  for (const ssp of ['low', 'partly']) {
    const { margin, unproven } = rowOf(ssp)
    t.not(margin, '0')
    t.equal(unproven, margin, `${ssp}: Reports`)
  }
  t.equal(rowOf('fine').unproven, '0')
  const hours = await read<ReportRow[]>(`reports/summary?by=hour&from=${day}`)
  const sum = (name: 'margin' | 'unproven') =>
    hours.reduce((total, row) => total + Number(row[name]), 0)
  const parts = ['low', 'partly'].reduce((total, ssp) => total + Number(rowOf(ssp).margin), 0)
  t.ok(Math.abs(sum('unproven') - parts) < 1e-9, 'also where several suppliers share a row')
  t.ok(sum('margin') !== sum('unproven'))
})
