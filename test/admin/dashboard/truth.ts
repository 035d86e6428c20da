/** A part of console.test.ts: what the console shows is so, now, and nobody's change is overwritten. */
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import type { SupplierResource } from '../../../admin/management/schema.ts'
import { type ConsoleInBrowser, confirm, logIn, press, row, show } from '../../support/console.ts'
import { until } from '../../support/until.ts'

const hour = 3_600_000

/** Texts that the page draws on canvases from now on. */
const collectTexts = (page: Page) =>
  page.evaluate(`
    window.drawn = []
    const { fillText } = CanvasRenderingContext2D.prototype
    CanvasRenderingContext2D.prototype.fillText = function (text, ...more) {
      window.drawn.push(text)
      return fillText.call(this, text, ...more)
    }`)

/** Pixels of the colour of the line in a column of the chart, from 0 (left) to 1. */
const linePixels = (page: Page, index: number) =>
  page.evaluate<number>(`{
    const canvas = document.querySelector('[aria-label="History"] canvas')
    const over = document.querySelector('[aria-label="History"] .u-over').getBoundingClientRect()
    const box = canvas.getBoundingClientRect()
    const scale = canvas.width / box.width
    const x = Math.round((over.left - box.left + ${index} * over.width) * scale)
    const top = Math.round((over.top - box.top) * scale)
    const { data } = canvas.getContext('2d').getImageData(x, top, 1, Math.round(over.height * scale))
    let count = 0
    for (let n = 0; n < data.length; n += 4)
      if (data[n + 3] > 100 && data[n + 2] > 120 && data[n + 2] - data[n] > 60) count++
    count
  }`)

export async function truth(t: Test, world: ConsoleInBrowser) {
  const { base, api, page, faults, bids } = world
  const path = '/api/svc/ssp/idle/'
  const location = 'eu-west'
  const supplier = async () => (await (await api(path)).json()) as SupplierResource
  const center = async () =>
    (await supplier()).datacenters.find((datacenter) => datacenter.location === location)
  /** A change of a colleague, the user `admin`. */
  const colleague = async (body: object) => t.equal((await api(path, 'PUT', body)).status, 200)
  const qps = [{ location, value: 900 }]
  const body = {
    dsp_seats: [{ name: 'one', qps }],
    datacenters: [{ location, client_qps: 500 }],
  }
  t.equal((await api(path, 'POST', body)).status, 201)
  await logIn(page, base, 'op', 'supplier/idle')
  const allotment = page.getByRole('spinbutton', { name: `Allotment of ${location}` })
  const change = `Change the allotment of ${location}`

  t.test(
    'a change says who has changed the value meanwhile, and shows the present one',
    async (t) => {
      await allotment.fill('70')
      await press(page, change)
      const dialog = page.getByRole('dialog')
      await dialog.getByText('now: 500 requests / s').waitFor()
      await colleague({ datacenters: [{ location, client_qps: 50 }] })
      await dialog.getByRole('button', { name: 'Change', exact: true }).click()
      await dialog
        .getByText(/Not changed: admin changed it, .*\d:\d\d.*\. It is now: 50 requests/)
        .waitFor()
      t.equal(await dialog.getByRole('button', { name: 'Change', exact: true }).count(), 0)
      await dialog.getByRole('button', { name: 'Close' }).click()
      await dialog.waitFor({ state: 'hidden' })
      await page.getByRole('listitem').filter({ hasText: location }).getByText('50 req').waitFor()
      t.equal((await center())?.client_qps, 50)
    },
  )

  t.test('an undo restores what it changed, and nothing that a colleague changed', async (t) => {
    await until(async () => (await allotment.inputValue()) === '50')
    await allotment.fill('70')
    await press(page, change)
    await confirm(page, 'Change', `The allotment of ${location} is 70 requests / s.`)
    await colleague({ dsp_seats: [{ name: 'one', is_active: false }] })
    await press(page, 'Undo')
    await page.getByText('Undone.').waitFor()
    const now = await supplier()
    t.equal((await center())?.client_qps, 50, 'restored')
    t.equal(now.dsp_seats.find(({ name }) => name === 'one')?.is_active, false, 'kept')
    await until(async () => (await allotment.inputValue()) === '50')
    await allotment.fill('80')
    await press(page, change)
    await confirm(page, 'Change', `The allotment of ${location} is 80 requests / s.`)
    await colleague({ datacenters: [{ location, client_qps: 60 }] })
    await press(page, 'Undo')
    await page.getByText(/Not undone: admin changed it, .*\. It is now: 60 requests/).waitFor()
    t.equal((await center())?.client_qps, 60, 'a later change is not overwritten')
  })

  t.test(
    'a hold that a colleague has set is not set again, and its undo releases nothing',
    async (t) => {
      await show(page, base, 'supplier/acme', 'Acme')
      await press(page, 'Hold Acme')
      t.equal((await api('/api/svc/opd/acme/', 'PUT', { hold: true })).status, 200)
      await page.getByRole('dialog').getByRole('button', { name: 'Hold', exact: true }).click()
      await page.getByText(/Not changed: admin changed it, .*\. It is now: on hold/).waitFor()
      await press(page, 'Close')
      t.equal((await api('/api/svc/opd/acme/', 'PUT', { hold: false })).status, 200)
    },
  )

  t.test('seats and history are read again by themselves', async (t) => {
    await show(page, base, 'supplier/idle', 'Idle')
    await api(path, 'POST', { dsp_seats: [{ name: 'added-elsewhere' }] })
    await page.getByText('added-elsewhere').first().waitFor()
    await show(page, base, 'supplier/acme', 'Acme')
    await page.getByText('The same as a table').click()
    const rows = page.locator('[aria-label="History as a table"] tbody')
    const publishers = page.getByRole('table', { name: 'Publishers' })
    await rows.locator('tr').first().waitFor()
    const before = [await rows.textContent(), await publishers.textContent()]
    const response = await bids('acme', 5)
    t.equal(response.status, 200)
    await response.arrayBuffer()
    await until(async () => (await rows.textContent()) !== before[0])
    await until(async () => (await publishers.textContent()) !== before[1])
  })

  t.test('hours without figures are gaps, and the running hour is dashed', async (t) => {
    const [sample] = (await (
      await api('/api/svc/reports/margin?ssp=acme&by=ssp')
    ).json()) as object[]
    /** The day before yesterday and yesterday, in UTC: hours by their numbers. */
    const answer = (hours: number[], margin: string, running: boolean) =>
      page.route('**/api/svc/reports/margin**', async (route) => {
        const query = new URL(route.request().url()).searchParams
        if (query.get('by') !== 'hour') return route.continue()
        const from = Number(query.get('from'))
        const now = Date.now() - (Date.now() % hour)
        const times = [
          ...hours.map((hourIndex) => from + hourIndex * hour),
          ...(running ? [now] : []),
        ]
        const rows = times.map((time) => ({ ...sample, key: new Date(time).toISOString(), margin }))
        return route.fulfill({ json: rows })
      })
    await page.getByLabel('Time zone').selectOption('UTC')
    const date = (daysAgo: number) =>
      new Date(Date.now() - daysAgo * 24 * hour).toISOString().slice(0, 10)
    await answer([0, 1, 2, 3, 20, 21, 22, 23], '7', false)
    await page.goto(`${base}/#/supplier/acme?from=${date(2)}&to=${date(2)}&by=hour`)
    await page.getByText('16 hours without figures are gaps.').waitFor()
    await page.getByRole('img', { name: /^Margin .*16 hours without figures are gaps/ }).waitFor()
    await until(
      async () => (await linePixels(page, 0.08)) > 0 && (await linePixels(page, 0.5)) === 0,
      { what: 'a line where there are figures, and none in the gap' },
    )
    await page.unroute('**/api/svc/reports/margin**')
    await answer([0, 1, 2], '7', true)
    await page.goto(`${base}/#/supplier/acme?from=${date(1)}&to=${date(0)}&by=hour`)
    await page.getByText('The running hour is dashed').waitFor()
    await page.unroute('**/api/svc/reports/margin**')
    await collectTexts(page)
    await answer([0, 1, 2, 3], '0', false)
    await page.goto(`${base}/#/supplier/acme?from=${date(2)}&to=${date(2)}&by=hour`)
    await page.getByText('20 hours without figures are gaps.').waitFor()
    // the page draws a chart after the words beside it
    let texts: string[] = []
    await until(
      async () => {
        texts = await page.evaluate<string[]>('window.drawn')
        return texts.some((text) => /^USD/.test(text))
      },
      { what: 'an axis of money' },
    )
    t.notOk(
      texts.some((text) => /USD\s\d\d/.test(text)),
      'the axis of zeros ends near 0',
    )
    await page.unroute('**/api/svc/reports/margin**')
  })

  t.test('a name of 200 letters pushes no money off the board', async (t) => {
    const name = `Long ${'exchange '.repeat(21)}end`
    world.addSuppliers(
      `  - {id: long, name: "${name}", account: others, endpoints: ["http://127.0.0.1:1"]}\n`,
    )
    await show(page, base, 'suppliers', 'Suppliers')
    const link = row(page, name).getByRole('link', { name })
    await link.waitFor()
    t.equal(await link.locator('[title]').getAttribute('title'), name, 'the whole name is at hand')
    for (const width of [1400, 1000, 390]) {
      await page.setViewportSize({ width, height: 900 })
      const box = await row(page, name).locator('td').nth(1).boundingBox()
      t.ok(box!.x + box!.width <= width, `the margin is in sight at ${width} px: ${box!.x}`)
    }
    const domain = `${'sub.'.repeat(45)}example`
    await page.route('**/api/svc/reports/margin**', async (route) => {
      const response = await route.fetch()
      const rows = (await response.json()) as object[]
      const isDomains = route.request().url().includes('by=domain')
      return route.fulfill({ json: isDomains ? [{ ...rows[0], key: domain }] : rows })
    })
    await show(page, base, 'supplier/acme', 'Acme')
    const cell = page.getByRole('table', { name: 'Domains' }).locator('tbody td').first()
    await page.getByRole('button', { name: domain }).waitFor()
    for (const width of [1400, 1000, 390]) {
      await page.setViewportSize({ width, height: 900 })
      const region = await page.getByRole('region', { name: 'Domains' }).boundingBox()
      const box = await cell.boundingBox()
      t.ok(box!.x + box!.width <= region!.x + region!.width, `that of a domain at ${width} px`)
    }
    // A handler may still wait for the service: it ends before it is removed.
    await page.unrouteAll({ behavior: 'wait' })
    await page.setViewportSize({ width: 1440, height: 900 })
  })
  t.test('no script failed', async (t) => t.same(faults, []))
}
