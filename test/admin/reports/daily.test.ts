/** The report of the day before at a webhook: signed, once over all nodes, tried again, by the days of its zone. */
import { sql } from 'kysely'
import t from 'tap'
import { DailyReport, type DailySettings, dayBefore } from '../../../admin/reports/daily.ts'
import { createRollup } from '../../../admin/store/rollup.ts'
import { decided, observe } from '../../support/decision-record.ts'
import { entry } from '../../support/ledger-entry.ts'
import { serveNode } from '../../support/served-node.ts'
import { onBoth, recordingLog, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'
import { webhookReceiver, webhookSecret } from '../../support/webhook.ts'

const hour = 3_600_000
const rules = () => ({ notices: {}, rates: { USD: 1 }, base: 'USD' })

interface Report {
  id: string
  event: string
  day: string
  total: { wins: number; margin: string; decided: number } | null
  suppliers: { key: string; wins: number; margin: string; currency: string }[]
}

t.test('the days of a zone, when its clocks change', async (t) => {
  const dayOf = (now: string, tz: string) => {
    const { from, to, due, name } = dayBefore(Date.parse(now), { at: '06:30', tz })
    return [name, (to - from) / hour, new Date(due).toISOString()]
  }
  t.same(dayOf('2026-11-02T12:00:00Z', 'America/New_York'), [
    '2026-11-01',
    25,
    '2026-11-02T11:30:00.000Z',
  ])
  t.same(dayOf('2026-03-09T12:00:00Z', 'America/New_York'), [
    '2026-03-08',
    23,
    '2026-03-09T10:30:00.000Z',
  ])
  t.same(dayOf('2026-03-08T12:00:00Z', 'America/New_York'), [
    '2026-03-07',
    24,
    '2026-03-08T10:30:00.000Z',
  ])
  t.same(dayOf('2026-01-01T00:00:00Z', 'UTC'), ['2025-12-31', 24, '2026-01-01T06:30:00.000Z'])
})

onBoth(async (t, database) => {
  let now = Date.parse('2026-05-10T05:00:00Z')
  const yesterday = Date.parse('2026-05-09T12:00:00Z')
  const store = await storeAt(t, database, { now: () => now })
  const rollup = createRollup(store, silent)
  t.teardown(() => rollup.close())
  observe(rollup.bids, decided({ id: 'd1', supplier: 'acme', decidedAt: yesterday }), 2, 1.8)
  const row = { at: yesterday, decided_at: yesterday, supplier: 'acme' }
  await store.ledger.record(entry('d1', { ...row, cleared: '1.8', margin: '0.2' }))
  const today = { ...row, at: now, decided_at: now }
  await store.ledger.record(entry('d2', { ...today, cleared: '1', margin: '1' }))
  const { got, url } = await webhookReceiver<Report>(t)
  const { warnings, log } = recordingLog()
  const settings: DailySettings = { url, secret: webhookSecret, at: '06:00', tz: 'UTC' }
  const open = (dailySettings: DailySettings | null = settings) => {
    const report = new DailyReport({
      ...{
        store,
        rules,
        log,
        settings: () => dailySettings,
        now: () => now,
        flush: () => rollup.flush(),
      },
    })
    t.teardown(() => report.close())
    return report
  }
  const nodes = [open(), open(), open(null)]
  const check = () => Promise.all(nodes.map((node) => node.check()))

  await check()
  t.same(got.events, [], 'not before it is due')
  now = Date.parse('2026-05-10T06:00:01Z')
  got.status = 500
  await check()
  t.equal(got.events.length, 1, 'by one of the nodes')
  t.match(warnings, [/was not sent/])
  got.status = 200
  await check()
  t.equal(got.events.length, 1, 'not again at once')
  now += 301_000
  await check()
  t.equal(got.events.length, 2, 'again after five minutes')
  now += 301_000
  await check()
  t.equal(got.events.length, 2, 'not after it was taken')
  const [failed, taken] = got.events
  t.same(failed, taken, 'the same event')
  t.match(taken, {
    ...{ id: 'daily_report 2026-05-09', event: 'daily_report', day: '2026-05-09' },
    total: { wins: 1, decided: 1, margin: '0.0002' },
    suppliers: [{ key: 'acme', wins: 1, margin: '0.0002', currency: 'USD' }],
  })
  now += 24 * hour
  await check()
  t.match(got.events.at(-1), { day: '2026-05-10', total: { wins: 1, margin: '0.001' } })
  t.equal(got.events.length, 3)

  const closeAll = () => Promise.all(nodes.splice(0).map((node) => node.close()))
  await closeAll()
  nodes.push(open(), open())
  await check()
  t.equal(got.events.length, 3, 'a restart after it was sent sends nothing again')
  await closeAll()
  now += 24 * hour
  nodes.push(open(), open(), open(), open())
  await check()
  t.match(got.events.slice(3), [{ day: '2026-05-11' }], 'of nodes that start at that hour, one')
  now += 24 * hour
  const left = sql`insert into daily_reports (day, sent, at) values ('2026-05-12', 0, ${now})`
  await left.execute(store.db)
  await check()
  t.equal(got.events.length, 4, 'another node may be sending it')
  await closeAll()
  now += 301_000
  nodes.push(open(), open())
  await check()
  await check()
  t.match(
    got.events.slice(4),
    [{ day: '2026-05-12' }],
    'that node has ended: another sends it, once',
  )
  t.equal(got.forged, 0)
})

t.test('a node sends it, and shows neither secret nor receiver', async (t) => {
  const { got, url } = await webhookReceiver<Report>(t)
  const hook = `dailyReport: {url: "${url}?key=of-the-receiver", secret: "${webhookSecret}", at: "00:00"}`
  const node = await serveNode({
    ...{ suppliers: ['id: acme'], endpoint: 'http://127.0.0.1:1', more: '' },
    admin: hook,
  })
  t.teardown(() => node.bidweir.stop())
  await until(() => got.events.length === 1)
  t.match(got.events[0], { event: 'daily_report', total: null, suppliers: [] })
  const shown = await (await node.api('/api/svc/configuration/')).text()
  t.match(shown, 'dailyReport')
  t.notMatch(shown, /of-the-receiver|a secret of|\/hook/)
})
