/** A part of console.test.ts: the last two days by minute. */
import type { Page, Route } from 'playwright-core'
import type { Test } from 'tap'
import type { Minutes } from '../../../admin/fleet/minutes.ts'
import { type ConsoleInBrowser, logIn, press, show } from '../../support/console.ts'
import { until } from '../../support/until.ts'

const hour = 3_600_000

/**
 * The pixels of a colour of the page in each column of the chart between two parts of its width, from 0 (left) to 1.
 *
 * @param colour such as `--accent`
 */
async function pixels(page: Page, colour: string, from: number, to: number): Promise<number[]> {
  // New figures draw the chart again: for a moment there is none.
  await page.locator('[aria-label="By minute"] .chart .u-over').waitFor()
  return page.evaluate<number[]>(`{
    const chart = document.querySelector('[aria-label="By minute"] .chart')
    const probe = document.createElement('span')
    probe.style.color = 'var(${colour})'
    chart.append(probe)
    const [red, green, blue] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number)
    probe.remove()
    const canvas = chart.querySelector('canvas')
    const over = chart.querySelector('.u-over').getBoundingClientRect()
    const box = canvas.getBoundingClientRect()
    const scale = canvas.width / box.width
    const left = Math.round((over.left - box.left + ${from} * over.width) * scale)
    const width = Math.round(${to - from} * over.width * scale)
    const [top, height] = [over.top - box.top, over.height].map((length) => Math.round(length * scale))
    const { data } = canvas.getContext('2d').getImageData(left, top, width, height)
    const found = Array(width).fill(0)
    for (let n = 0; n < data.length; n += 4) {
      const far = Math.max(...[red, green, blue].map((part, index) => Math.abs(data[n + index] - part)))
      if (data[n + 3] > 100 && far < 12) found[(n / 4) % width]++
    }
    found
  }`)
}

/** The contrast of WCAG 2.2 between yesterday's grey and what it is drawn on. */
const contrastOfGrey = `{
  const probe = document.createElement('span')
  document.querySelector('[aria-label="By minute"]').append(probe)
  const [grey, ground] = ['--faded', '--sheet'].map((name) => {
    probe.style.color = 'var(' + name + ')'
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).map((part) => part / 255)
    const [red, green, blue] = parts.map((part) =>
      part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05
  })
  probe.remove()
  Math.max(grey, ground) / Math.min(grey, ground)
}`
const share = (columns: number[]) => columns.filter((count) => count > 0).length / columns.length

export async function minutes(t: Test, { base, api, page, faults }: ConsoleInBrowser) {
  await logIn(page, base, 'op')
  const sheet = page.getByRole('region', { name: 'By minute' })
  const figure = sheet.getByRole('combobox', { name: 'figure' })

  t.test('what a supplier did in the last minutes, and what was changed', async (t) => {
    await api('/api/svc/opd/acme/', 'PUT', { hold: true })
    await api('/api/svc/opd/acme/', 'PUT', { hold: false })
    await show(page, base, 'supplier/acme', 'Acme')
    await sheet.locator('canvas').waitFor()
    await sheet.getByText(/\d+ changes in this time/).click()
    await sheet.getByText('a node started').waitFor()
    await sheet.getByText('hold off').first().waitFor()
    await sheet.getByText('These figures as a table').click()
    const rows = sheet.getByRole('table', { name: 'Requests / s by minute' }).locator('tbody tr')
    await rows.first().waitFor()
    const counted = async () =>
      (await rows.locator('td').allTextContents()).some((text) => Number(text) > 0)
    await until(counted, { what: 'requests in some minute' })
    await figure.selectOption('p99')
    await sheet.getByRole('img', { name: /^p99 over time/ }).waitFor()
    await until(async () =>
      (await sheet.locator('tbody td').allTextContents()).some((text) => /^[\d.]+\sms$/.test(text)),
    )
    t.match(page.url(), /figure=p99/, 'the address keeps the figure')
    await figure.selectOption('Kept wins')
    t.equal(
      await sheet.getByRole('combobox', { name: 'each' }).inputValue(),
      '60',
      'kept wins need more than a minute',
    )
    await press(page, '48 h')
    await sheet.getByText(/Figures by minute begin at/).waitFor()
  })

  t.test('gaps, the running minutes, yesterday and the interval look different', async (t) => {
    const now = Date.now()
    /** Yesterday is whole; of today four hours are missing. */
    const answer = async (route: Route) => {
      const query = new URL(route.request().url()).searchParams
      const found = (await (await route.fetch()).json()) as Minutes
      const isToday = Number(query.get('to')) > now - hour
      const length = found.values.requests.length
      const lacks = (index: number) => isToday && index >= length - 12 && index < length - 8
      const series = Array.from({ length }, (_, index) => (lacks(index) ? null : 0.9))
      const values = Object.fromEntries(Object.keys(found.values).map((name) => [name, series]))
      const marks = [{ at: now - 3 * hour, kind: 'hold', text: 'hold on' }]
      return route.fulfill({ json: { ...found, since: 0, values, marks } })
    }
    await page.route('**/api/svc/minutes/**', answer)
    await page.goto(`${base}/#/minutes?ssp=acme&hours=24&figure=Kept+wins`)
    await page
      .getByText(
        'The running 60 minutes are dashed; 240 minutes without figures are gaps; grey: 24 hours before; shaded: 95% interval.',
      )
      .waitFor()
    await page.getByText('1 change in this time').waitFor()
    t.equal(await page.getByLabel('Supplier').inputValue(), 'acme')
    // A handler may still wait for the service: it ends before it is removed.
    await page.unrouteAll({ behavior: 'wait' })
  })

  t.test('a gap, the running bucket, yesterday and a mark as they are drawn', async (t) => {
    const now = Date.now()
    await page.route('**/api/svc/minutes/**', async (route) => {
      const query = new URL(route.request().url()).searchParams
      const found = (await (await route.fetch()).json()) as Minutes
      const isToday = Number(query.get('to')) > now - hour
      const length = found.values.requests.length
      const margin = Array.from({ length }, (_, index) =>
        isToday ? (index >= 4 && index < 8 ? null : 9) : 6.3,
      )
      // the begin of the hour that is in the middle
      const marks = [{ at: found.from + 12 * hour, kind: 'hold', text: 'hold on' }]
      const values = { ...found.values, requests: margin, margin }
      return route.fulfill({ json: { ...found, since: 0, values, marks: isToday ? marks : [] } })
    })
    await page.goto(`${base}/#/minutes?ssp=idle&hours=24&each=60&figure=Margin`)
    await sheet.getByRole('img', { name: /^Margin over time.*; 240 minutes without/ }).waitFor()
    /** By hours since the begin: 25 buckets, the last of which runs. */
    const between = (colour: string, from: number, to: number) =>
      pixels(page, colour, from / 24, to / 24)
    t.equal(share(await between('--accent', 9, 20)), 1, 'a line where there are figures')
    t.equal(share(await between('--accent', 4.5, 6.5)), 0, 'none in the gap')
    const yesterday = share(await between('--faded', 1, 23))
    t.ok(yesterday > 0.8, `yesterday is grey, beside the gap as well: ${yesterday}`)
    const running = share(await between('--accent', 23.3, 23.8))
    t.ok(running > 0.3 && running < 0.75, `the running hour is dashed: ${running}`)
    const mark = Math.max(...(await between('--warn', 11.9, 12.1)))
    t.ok(mark > 60, `a line from top to bottom at the change: ${mark}`)
    t.equal(share(await between('--warn', 13, 22)), 0, 'and at no other time')
    await page.unrouteAll({ behavior: 'wait' })
  })

  t.test(
    'the grey of yesterday has a contrast of 3 or more with the ground in both themes',
    async (t) => {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        const contrast = await page.evaluate<number>(contrastOfGrey)
        // WCAG 2.2, 1.4.11
        t.ok(contrast >= 3, `${colorScheme}: ${contrast}`)
      }
      await page.emulateMedia({ colorScheme: null })
    },
  )

  t.test('all suppliers at once; one without requests is 0, not unknown', async () => {
    await show(page, base, 'minutes', 'Last two days')
    await page.getByLabel('Supplier').selectOption('Idle')
    await sheet.getByText('These figures as a table').click()
    await sheet.getByRole('table').getByText('0', { exact: true }).first().waitFor()
    await figure.selectOption('Factor')
    await sheet.getByText('No figures in this time.').waitFor()
  })

  t.test('no script failed', async (t) => t.same(faults, []))
}
