/** The console with data that is rare and allowed: ids, names and amounts at their limits, names from right to left, a year by hour. */
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
  show,
  visit,
} from '../../support/console.ts'
import { serveNode } from '../../support/served-node.ts'
import { httpSupplier } from '../../support/supplier.ts'
import { until } from '../../support/until.ts'

const hour = 3_600_000
const hebrew = 'חברה 24 מדיה'
const arabic = 'ناشر ٧'
/** The longest id, of each kind of character. */
const longest = `0${'a_-z9'.repeat(12)}az`
const year = { hours: 8760, days: 365 }

t.test('the console with rare data', { skip: browserAbsent }, async (t) => {
  const supplier = await httpSupplier((_request, response, body) => {
    const { id, ext } = JSON.parse(body) as { id: string; ext: { bids: unknown[] } }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ id, cur: 'USD', seatbid: [{ seat: hebrew, bid: ext.bids }] }))
  })
  t.teardown(() => supplier.close())
  const opd = 'opd: {enabled: true, holdout: 0, explore: 0}'
  const node = await serveNode({
    suppliers: [
      `id: rtl, name: "${hebrew}", account: "${hebrew}", ${opd}`,
      `id: "${longest}", name: "${'Ünïcödé & <i> quoted '.repeat(12)}", ${opd}`,
      `id: large, name: Large, ${opd}`,
      `id: year, name: Year, ${opd}`,
    ],
    endpoint: supplier.url,
  })
  const browser = await launch()
  const { page, faults } = await openPage(browser)
  t.teardown(async () => {
    await browser.close()
    await node.stop()
  })
  const base = node.admin
  const site = { domain: 'אתר.example', publisher: { id: arabic } }
  const won = async (ssp: string, id: string, price: number, cleared: (out: number) => string) => {
    const bid = await node.bid({ ssp, id, price, request: { site } })
    const notice = { bid_id: id, price: cleared(Number(bid.out)), svc_opd: bid.svcOpd }
    t.equal((await node.notify(notice)).http, 200, `a win of ${ssp} at ${price}`)
  }
  await won('rtl', 'r', 2, (out) => String(out))
  await won(longest, 'l', 2, (out) => String(1.4 * out))
  await won('large', 'm', 1e12, (out) => String(out / 2))
  const seat = { name: hebrew, name_external: arabic, qps: [{ location: 'מרכז 1', value: 100 }] }
  const added = await node.api('/api/svc/ssp/rtl/', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      dsp_seats: [seat],
      datacenters: [{ location: 'מרכז 1', client_qps: 50 }],
    }),
  })
  t.equal(added.status, 201)
  {
    using database = new DatabaseSync(join(node.folder, 'data/bidweir.db'), { timeout: 10_000 })
    const insert = database.prepare(`insert into decided
      (hour, supplier, mode, arm, via, publisher, domain, bids, in_sum, out_sum)
      values (?, 'year', 'revenue', 'treated', 'proxy', 'p', 'd', ?, ?, ?)`)
    const last = Date.now() - (Date.now() % hour) - 24 * hour
    database.exec('begin')
    for (let n = 0; n < year.hours; n++) insert.run(last - n * hour, n + 1, 2 * n, n)
    database.exec('commit')
  }
  await visit(page, base)
  await fillLogIn(page, 'admin', node.bidweir.password!)
  await row(page, hebrew).waitFor()

  t.test('each screen shows it, isolates names from right to left, and fits', async (t) => {
    const names = [hebrew, arabic, site.domain, 'מרכז 1']
    for (const [screen, heading] of [
      ['suppliers', 'Suppliers'],
      ['supplier/rtl', hebrew],
      [`supplier/${longest}`, /^Ünïcödé/],
      ['supplier/large', 'Large'],
      ['minutes?ssp=rtl', 'Last two days'],
      ['alerts', 'Alerts'],
      ['reports?by=supplier&and=seat', 'Reports'],
      ['reports?by=publisher&and=domain', 'Reports'],
      ['go-live/rtl', 'Go live'],
      [`go-live/${longest}`, 'Go live'],
      ['holds', 'Holds'],
      ['explain?bid=r', 'Explain a bid'],
      ['models', 'Models'],
      ['audit', 'Audit'],
      ['configuration', 'Configuration'],
      ['users', 'Users'],
      ['nodes', 'Nodes'],
    ] as const) {
      await page.goto(`${base}/#/${screen}`)
      await page.getByRole('heading', { level: 1, name: heading }).waitFor()
      await until(async () => (await page.getByText('Loading…').count()) === 0)
      const isOf = screen === 'supplier/rtl'
      if (isOf) await page.getByRole('button', { name: /^Switch off data center/ }).click()
      t.notMatch(
        await page.locator('main').innerText(),
        /NaN|undefined|Infinity|\[object|not read|not up to date/i,
        screen,
      )
      // a text that has such a name and other words puts digits beside the name on its wrong side
      const mixed = await page.evaluate<string[]>(`{
        const names = ${JSON.stringify(names)}
        const walker = document.createTreeWalker(document.querySelector('#app'), NodeFilter.SHOW_TEXT)
        const found = []
        while (walker.nextNode()) {
          const { data, parentElement } = walker.currentNode
          if (!/[\\u0590-\\u06ff]/.test(data) || parentElement.closest('option, pre, .hidden, textarea')) continue
          if (!/[\\u0590-\\u06ff]/.test(data.replaceAll(/\\u2068[^\\u2069]*\\u2069/g, ''))) continue
          const isName = names.some((name) => data.trim() === name)
          const { unicodeBidi } = getComputedStyle(parentElement)
          if (!isName || (unicodeBidi === 'normal' && parentElement.childNodes.length > 1)) found.push(data)
        }
        found
      }`)
      t.same(mixed, [], `${screen}: names alone`)
      if (isOf) await press(page, 'Cancel')
      for (const width of [390, 1440]) {
        await page.setViewportSize({ width, height: 900 })
        const fits = () =>
          page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')
        await until(fits, { what: `${screen} does not scroll sideways at ${width}` })
      }
    }
  })

  t.test('amounts: a loss is negative, and a large one is whole', async (t) => {
    await show(page, base, 'suppliers', 'Suppliers')
    const margin = async (name: string) =>
      (await row(page, name).locator('td').nth(1).innerText()).trim()
    await until(async () => /\d/.test(await margin('Large')))
    t.match(await margin('Ünïcödé'), /^-0\.00\d+|^-0\.00/)
    t.match(await margin('Large'), /^\d{3},\d{3},\d{3}\.\d\d$/)
  })

  t.test('a year by hour is shown in part, and its sum is that of all', async (t) => {
    const total = (year.hours * (year.hours + 1)) / 2
    const date = (time: number) => new Date(time).toISOString().slice(0, 10)
    const range = `from=${date(Date.now() - (year.days + 3) * 24 * hour)}&to=${date(Date.now())}&tz=UTC`
    await page.goto(`${base}/#/reports?by=hour&ssp=year&${range}`)
    const table = page.getByRole('table', { name: 'Report', exact: true })
    await table.getByText(total.toLocaleString('en-US')).waitFor()
    t.equal(await table.locator('tbody tr').count(), 500)
    await page.getByText('The first 500 of 8,760 rows in this order. The file has all.').waitFor()
    await page.goto(`${base}/#/supplier/year?by=hour&${range}`)
    await page.getByText('The same as a table').click()
    await page.getByText('The last 500 of 8,760. The file has all.').waitFor()
  })

  t.test('a change of a form whose token has expired meanwhile is made', async (t) => {
    await show(page, base, 'supplier/rtl', hebrew)
    await page.getByText('Add a seat').click()
    await page.getByLabel('Name in bid responses').fill('kept seat')
    let refused = 0
    await page.route('**/api/svc/ssp/rtl/', async (route) => {
      if (route.request().method() !== 'POST' || refused > 0) return route.continue()
      refused++
      const headers = { ...route.request().headers(), authorization: 'Bearer expired' }
      return route.continue({ headers })
    })
    await press(page, 'Add seat')
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Add seat' }).click()
    await page.getByText('Seat kept seat is added.').waitFor()
    t.equal(refused, 1)
    await page.unrouteAll({ behavior: 'wait' })
  })

  t.test('no script failed', async (t) => t.same(faults, []))
})
