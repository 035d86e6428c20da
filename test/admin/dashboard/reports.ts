/** A part of console.test.ts: reports over all suppliers, their addresses and files, and the comparison with a supplier's file. */
import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import { type ConsoleInBrowser, logIn, press, show } from '../../support/console.ts'
import { until } from '../../support/until.ts'

interface Row {
  key: string
  key2: string | null
  wins: number
  cleared: string
  margin: string
}

export async function reports(t: Test, { base, api, page, faults }: ConsoleInBrowser) {
  await logIn(page, base, 'op')
  const table = page.getByRole('table', { name: 'Report', exact: true })
  const rows = table.locator('tbody tr')
  const read = async (query: string) =>
    (await (await api(`/api/svc/reports/summary?${query}`)).json()) as Row[]
  const drop = (name: string, text: string) =>
    page
      .getByLabel('CSV file')
      .setInputFiles({ name, mimeType: 'text/csv', buffer: Buffer.from(text) })

  t.test('all suppliers, then two dimensions, then one name', async (t) => {
    await show(page, base, 'reports', 'Reports')
    await rows.filter({ hasText: 'acme' }).waitFor()
    t.match(await table.locator('thead').textContent(), /Margin.*USD/)
    await page.getByRole('combobox', { name: /^by/ }).selectOption('Publisher')
    await page.getByRole('combobox', { name: /^and/ }).selectOption('Day')
    await until(async () => /and=day/.test(page.url()) && (await rows.count()) > 1)
    await until(async () => /^pub-/.test((await rows.first().textContent()) ?? ''))
    const [largest] = await read('by=publisher,day&top=1')
    t.match(await rows.first().textContent(), largest!.key, 'the largest margin is on top')
    await table.getByRole('button', { name: largest!.key, exact: true }).first().click()
    await until(async () => (await rows.count()) === 1)
    t.match(page.url(), new RegExp(`publisher=${largest!.key}`))
    const download = page.waitForEvent('download')
    await press(page, 'Save CSV by publisher,day')
    const text = await readFile(await (await download).path(), 'utf8')
    t.match(text, /^publisher,day,decided,wins,.*,currency\r\n/)
  })

  t.test('by country, which seat, publisher and domain cannot be combined with', async (t) => {
    await show(page, base, 'reports?publisher=pub-1', 'Reports')
    const by = page.getByRole('combobox', { name: /^by/ })
    const and = page.getByRole('combobox', { name: /^and/ })
    await by.selectOption('Country')
    await until(() => /by=country/.test(page.url()) && !/publisher=/.test(page.url()))
    const countries = await read('by=country')
    await until(async () => (await rows.count()) === countries.length)
    const offered = await and.locator('option').allTextContents()
    t.same(offered, ['nothing else', 'Supplier', 'Source', 'Hour', 'Day'])
    const { key } = countries.find((country) => country.key !== '')!
    await table.getByRole('button', { name: key, exact: true }).click()
    await until(async () => (await rows.count()) === 1)
    await by.selectOption('Hour')
    await until(() => /by=hour/.test(page.url()) && page.url().includes(`country=${key}`))
    const hours = await read(`by=hour&country=${key}`)
    await until(async () => (await rows.count()) === hours.length)
    await press(page, 'All of country')
    await until(() => !/country=/.test(page.url()))
    await by.selectOption('Device')
    await rows.filter({ hasText: 'personal computer' }).waitFor()
    await by.selectOption('Deal')
    await rows.filter({ hasText: 'no deal' }).waitFor()
  })

  t.test('its address shows the same again, in its time zone', async () => {
    await page.evaluate("localStorage.setItem('bidweir-zone', 'UTC')")
    await page.goto('about:blank')
    await page.goto(`${base}/#/reports?days=7&by=day&tz=Asia%2FKathmandu`)
    await page.getByText('days of Asia/Kathmandu').waitFor()
    await page.getByRole('img', { name: /^Margin over time/ }).waitFor()
    await rows.first().waitFor()
    await page.getByLabel('Time zone').selectOption('America/New_York')
    await page.getByText('days of America/New_York').waitFor()
    await until(async () => /tz=America%2FNew_York/.test(page.url()))
    await page.getByLabel('Time zone').selectOption('UTC')
  })

  t.test('days have 25 and 23 hours when clocks change', async (t) => {
    await page.evaluate("localStorage.setItem('bidweir-zone', 'UTC')")
    const hours = async (from: string, to: string) => {
      await page.goto('about:blank')
      const asked = page.waitForRequest((request) => request.url().includes('/reports/summary'))
      await page.goto(`${base}/#/reports?by=day&tz=America%2FNew_York&from=${from}&to=${to}`)
      const { searchParams } = new URL((await asked).url())
      return (Number(searchParams.get('to')) - Number(searchParams.get('from'))) / 3_600_000
    }
    t.equal(await hours('2025-11-02', '2025-11-02'), 25)
    t.equal(await hours('2026-03-07', '2026-03-09'), 71)
    await page.getByLabel('Time zone').selectOption('UTC')
  })

  t.test('ours beside theirs, from a file of the supplier', async (t) => {
    await show(page, base, 'reports?by=publisher', 'Reports')
    const [one, other] = await read('by=publisher')
    await rows.first().waitFor()
    const theirs = Number(one!.cleared) * 0.9
    await drop(
      'their report.csv',
      `\uFEFF"Publisher";Impressions;"Spend, USD"\r\n"${one!.key.toUpperCase()}";${one!.wins};"${theirs.toFixed(6).replace('.', ',')}"\r\n"=only theirs";7;1\r\n`,
    )
    const beside = page.getByRole('table', { name: 'Ours beside theirs' })
    const row = beside.locator('tr').filter({ has: page.getByText(one!.key, { exact: true }) })
    await row.getByText('-10%').waitFor()
    t.match(await row.textContent(), /0%/, 'the same wins')
    await beside.getByText('=only theirs').waitFor()
    await page.getByText(/\d+ of \d+ names are on one side only/).waitFor()
    t.not(other, undefined)
    await page.getByLabel('Their amounts').selectOption('none')
    await until(async () => !/-10%/.test((await row.textContent()) ?? ''))
  })

  t.test('a file that cannot be read is refused with the place of the fault', async () => {
    await drop('empty.csv', 'publisher,wins\n')
    await page.getByText('empty.csv cannot be read: the file has no row below its names').waitFor()
    await drop('open.csv', 'publisher,wins\n"a,1\n')
    await page.getByText('open.csv cannot be read: line 2: a quote is not closed').waitFor()
    await drop('odd.csv', 'publisher,wins\na,1,2\n')
    await page
      .getByText('odd.csv cannot be read: row 2 has more cells than there are names')
      .waitFor()
    await drop('large.csv', 'publisher,wins\n'.repeat(400_000))
    await page.getByText('large.csv cannot be read: the file is larger than 5 MB').waitFor()
  })

  t.test('a range without figures says so', async () => {
    await page.goto(`${base}/#/reports?from=2020-01-01&to=2020-01-02`)
    await page.getByText('No bids and no wins in this range.').waitFor()
  })
  t.test('no script failed', async (t) => t.same(faults, []))
}
