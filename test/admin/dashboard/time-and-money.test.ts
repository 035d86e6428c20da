/** The console in another base currency, on days of 23 and 25 hours, and with notices of today for bids of yesterday. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import {
  browserAbsent,
  fillLogIn,
  launch,
  openPage,
  press,
  row,
  screenNames,
  show,
  visit,
} from '../../support/console.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const hour = 3_600_000
const day = 24 * hour

t.test('time and money in the console', { skip: browserAbsent }, async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({
    suppliers: [
      'id: acme, name: Acme, opd: {enabled: true, holdout: 0, explore: 0}',
      'id: clocks, name: Clocks, opd: {enabled: true}',
      'id: yesterday, name: Yesterday, opd: {enabled: true, holdout: 0, explore: 0}',
    ],
    endpoint: supplier.url,
    more: 'currency: {base: EUR}',
  })
  const browser = await launch()
  const { page, faults } = await openPage(browser)
  t.teardown(async () => {
    await browser.close()
    await node.stop()
    await supplier.close()
  })
  const base = node.admin
  const won = async (ssp: string, id: string) => {
    const bid = await node.bid({ ssp, id, price: 2, cur: 'EUR' })
    const notice = { bid_id: id, price: String(Number(bid.out) / 2), svc_opd: bid.svcOpd }
    t.equal((await node.notify(notice)).http, 200)
  }
  for (let n = 0; n < 30; n++) await won('acme', `euro ${n}`)
  await visit(page, base)
  await fillLogIn(page, 'admin', node.bidweir.password!)
  await row(page, 'Acme').waitFor()
  const report = page.getByRole('table', { name: 'Report', exact: true })
  const rows = report.locator('tbody tr')
  const cell = (key: string, name: string) =>
    rows.filter({ hasText: key }).locator(`[data-name^="${name}"]`).innerText()

  t.test('each screen has the base currency, and no other', async (t) => {
    const address: Readonly<Record<string, string>> = {
      supplier: 'supplier/acme',
      minutes: 'minutes?ssp=acme&figure=Margin&hours=1',
      explain: 'explain?bid=euro+1',
      'go-live': 'go-live/acme',
    }
    for (const name of screenNames()) {
      await page.goto(`${base}/#/${address[name] ?? name}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await until(async () => (await page.getByText('Loading…').count()) === 0)
      for (const table of await page.getByText('These figures as a table').all())
        await table.click()
      t.notMatch(await page.locator('main').innerText(), /USD|\$(?!\{)/, name)
    }
    await show(page, base, 'suppliers', 'Suppliers')
    await page.getByRole('columnheader', { name: 'Margin today' }).getByText('EUR').waitFor()
    await until(async () => /\d\.\d\d/.test(await row(page, 'Acme').innerText()))
    const margin = await row(page, 'Acme').locator('[data-name="Margin today, EUR"]').innerText()
    const [summed] = await node.report('margin?by=ssp&ssp=acme')
    t.ok(Math.abs(Number(margin) - Number(summed!['margin'])) < 0.0001, 'that of the API')
    await show(page, base, 'explain?bid=euro+1', 'Explain a bid')
    await page
      .getByText(/^[\d.]+ EUR CPM$/)
      .first()
      .waitFor()
    await show(page, base, 'reports', 'Reports')
    await rows.filter({ hasText: 'Acme' }).waitFor()
    t.match(
      await report.locator('thead').innerText(),
      /Margin.*EUR.*Revenue.*EUR.*Cleared minus sent.*EUR/s,
    )
    const download = page.waitForEvent('download')
    await press(page, 'Save CSV by supplier')
    const [head, ...lines] = (await readFile(await (await download).path(), 'utf8'))
      .trim()
      .split('\r\n')
    t.match(head, /,currency$/)
    t.ok(lines.every((line) => line.endsWith(',EUR')))
  })

  t.test('a notice of today for a bid of yesterday counts today, and once', async (t) => {
    await won('yesterday', 'late notice')
    await node.report('summary?by=day')
    {
      using database = new DatabaseSync(join(node.folder, 'data/bidweir.db'), { timeout: 10_000 })
      const moved = database.prepare(
        `update ledger set decided_at = decided_at - ${day} where supplier = 'yesterday'`,
      )
      t.equal(moved.run().changes, 1)
      const bids = database.prepare(
        `update decided set hour = hour - ${day} where supplier = 'yesterday'`,
      )
      t.equal(bids.run().changes, 1)
    }
    const date = (time: number) => new Date(time).toISOString().slice(0, 10)
    const [before, today] = [date(Date.now() - day), date(Date.now())]
    await page.getByLabel('Time zone').selectOption('UTC')
    await page.goto(`${base}/#/reports?by=day&ssp=yesterday&from=${before}&to=${today}&tz=UTC`)
    await until(async () => (await rows.count()) === 2)
    t.same([await cell(before, 'Bids'), await cell(before, 'Wins')], ['1', '0'])
    t.same([await cell(today, 'Bids'), await cell(today, 'Wins')], ['0', '1'])
    const foot = report.locator('tfoot')
    t.same(
      [
        await foot.locator('[data-name="Bids"]').innerText(),
        await foot.locator('[data-name="Wins"]').innerText(),
      ],
      ['1', '1'],
    )
    await page.goto(`${base}/#/suppliers`)
    await until(async () => /1\s*of 0 bids/.test(await row(page, 'Yesterday').innerText()))
  })

  t.test('a day of 25 hours and one of 23 are whole in reports and charts', async (t) => {
    const berlin = 'Europe/Berlin'
    const newYork = 'America/New_York'
    const days = [
      { zone: newYork, date: '2025-11-02', begin: Date.parse('2025-11-02T04:00Z'), hours: 25 },
      { zone: newYork, date: '2026-03-08', begin: Date.parse('2026-03-08T05:00Z'), hours: 23 },
      { zone: berlin, date: '2025-10-26', begin: Date.parse('2025-10-25T22:00Z'), hours: 25 },
      { zone: berlin, date: '2026-03-29', begin: Date.parse('2026-03-28T23:00Z'), hours: 23 },
    ]
    const twice: Record<string, string[]> = {
      [newYork]: ['GMT-4', 'GMT-5'],
      [berlin]: ['GMT+2', 'GMT+1'],
    }
    {
      using database = new DatabaseSync(join(node.folder, 'data/bidweir.db'), { timeout: 10_000 })
      const insert = database.prepare(`insert into decided
        (hour, supplier, mode, arm, via, publisher, domain, bids, in_sum, out_sum)
        values (?, 'clocks', 'revenue', 'treated', 'proxy', 'p', 'd', ?, 2, 1)`)
      // the hours beside the day are those of other days
      for (const { begin, hours } of days)
        for (let n = -1; n <= hours; n++)
          insert.run(begin + n * hour, n < 0 || n === hours ? 1000 : 1)
    }
    for (const { zone, date, hours } of days) {
      await page.getByLabel('Time zone').selectOption(zone)
      const range = `ssp=clocks&from=${date}&to=${date}&tz=${zone}`
      await page.goto(`${base}/#/reports?by=hour&${range}`)
      await until(async () => (await rows.count()) === hours, { what: `${hours} rows` })
      const named = await rows.locator('th').allInnerTexts()
      t.equal(new Set(named).size, hours, 'each hour has a name of its own')
      const offsets = named.flatMap((name) => /GMT\S+/.exec(name) ?? [])
      t.same(offsets, hours === 25 ? twice[zone] : [], 'the hour that clocks show twice, in order')
      const chart = page.getByRole('img', { name: /^Margin over time/ })
      t.notMatch(await chart.getAttribute('aria-label'), /without figures/, 'no gap')
      await page.goto(`${base}/#/reports?by=day&${range}`)
      await until(async () => (await rows.count()) === 1)
      t.equal(await cell('', 'Bids'), String(hours), `the day has ${hours} hours`)
      await page.goto(`${base}/#/supplier/clocks?by=hour&from=${date}&to=${date}`)
      const history = page.getByRole('region', { name: 'History' })
      const shown = history.getByRole('img', { name: /^Margin over time/ })
      await until(
        async () =>
          !/without figures/.test((await shown.getAttribute('aria-label')) ?? 'without figures'),
      )
      await history.getByText('The same as a table').click()
      const table = page.locator('[aria-label="History as a table"] tbody tr')
      await until(async () => (await table.count()) === hours)
    }
  })

  t.test('no script failed', async (t) => t.same(faults, []))
})
