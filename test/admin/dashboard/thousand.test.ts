/** The console with 1,000 suppliers, each with bids: what a person does on the board and in reports. Bytes and nodes are counted, no times. */
import { readFile } from 'node:fs/promises'
import type { Response } from 'playwright-core'
import t from 'tap'
import {
  browserAbsent,
  fillLogIn,
  launch,
  nameOfScreen,
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

const count = 1000
const ids = Array.from({ length: count }, (_, n) => `supplier-${n}`)
/** Bytes of a poll as it is sent, when each supplier has changed since the last. */
const heaviestPoll = 15_000
/** Elements of the board for each supplier: 10 cells with their contents. */
const elementsEach = 25
/** Elements of a page beside its rows. */
const elementsBeside = 1600

t.test('the console with 1,000 suppliers', { skip: browserAbsent }, async (t) => {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  const node = await serveNode({
    suppliers: ids.map(
      (id, n) =>
        `id: ${id}, name: "Supplier ${n}", account: account-${n % 10}, opd: {enabled: true, holdout: 0, explore: 0}`,
    ),
    endpoint: supplier.url,
  })
  const browser = await launch()
  const { page, faults } = await openPage(browser)
  t.teardown(async () => {
    await browser.close()
    await node.stop()
  })
  const base = node.admin
  const bidsOfAll = async (round: string) => {
    for (const ssp of ids) await node.bid({ ssp, id: `${round} ${ssp}`, price: 2 })
  }
  await bidsOfAll('first')
  const elements = () => page.evaluate<number>("document.querySelectorAll('*').length")
  const isPoll = (response: Response) => response.url().includes('/api/svc/live/list/?since=')
  const bytesOf = async (response: Response) => (await response.request().sizes()).responseBodySize
  await visit(page, base)
  await fillLogIn(page, 'admin', node.bidweir.password!)

  t.test(
    'the board has all, in sight of their totals, and a bounded number of elements',
    async (t) => {
      await page.getByText('Total of 1,000').waitFor()
      t.equal(await page.locator('tbody tr').count(), count)
      const shown = await elements()
      t.comment(`${shown} elements`)
      t.ok(shown < elementsEach * count + elementsBeside, `${shown} elements`)
      await page.locator('tfoot').getByText('of 1,000 bids').waitFor()
    },
  )

  t.test('a poll is small and compressed, also when each supplier has changed', async (t) => {
    await bidsOfAll('second')
    for (let polls = 0; polls < 3; polls++) {
      const response = await page.waitForResponse(isPoll)
      const { integrations } = (await response.json()) as { integrations: unknown[] }
      const bytes = await bytesOf(response)
      t.comment(`${integrations.length} suppliers, ${bytes} bytes`)
      t.ok(bytes < heaviestPoll, `${bytes} bytes for ${integrations.length} suppliers`)
      if (integrations.length === count)
        t.match(await response.headerValue('content-encoding'), /gzip|br|zstd/)
    }
  })

  t.test('search, filter and sort leave the rows that match', async (t) => {
    await page.getByLabel('Search').fill('supplier 77')
    await page.getByText('Total of 11', { exact: true }).waitFor()
    t.equal(await page.locator('tbody tr').count(), 11)
    await page.getByLabel('Search').fill('account-7')
    await page.getByText('Total of 100', { exact: true }).waitFor()
    await page.getByLabel('Search').fill('')
    await page.getByText('Total of 1,000').waitFor()
    const states = page.getByRole('group', { name: 'Only suppliers with the state' })
    const [state] = await states.getByRole('button').all()
    const [, many] = /: ([\d,]+)$/.exec(await state!.innerText())!
    await state!.click()
    await page.getByText(`Total of ${many}`, { exact: true }).waitFor()
    await state!.click()
    await page.getByRole('columnheader', { name: 'Wins today' }).getByRole('button').click()
    await press(page, 'Supplier')
    const first = page.locator('tbody tr').first()
    await until(async () => /^Supplier 0\b/.test(await first.innerText()))
  })

  t.test('one is opened from the list, and the way back shows all', async (t) => {
    await page.getByLabel('Search').fill('supplier 777')
    await row(page, 'Supplier 777').getByRole('link').click()
    await page.getByRole('heading', { level: 1, name: 'Supplier 777' }).waitFor()
    await page.getByRole('region', { name: 'Now' }).waitFor()
    t.ok((await elements()) < elementsBeside, 'the page of one does not grow with the others')
    await page.goBack()
    await page.getByText('Total of 1', { exact: true }).waitFor()
    await page.getByLabel('Search').fill('')
    await page.getByText('Total of 1,000').waitFor()
  })

  t.test('a report over all shows the largest, and its file has each', async (t) => {
    await show(page, base, 'reports', 'Reports')
    const table = page.getByRole('table', { name: 'Report', exact: true })
    await table.locator('tbody tr').nth(499).waitFor()
    t.equal(await table.locator('tbody tr').count(), 500)
    await page.getByText('The 500 rows with the largest margin. The file has all.').waitFor()
    const download = page.waitForEvent('download')
    await press(page, 'Save CSV by supplier')
    const lines = (await readFile(await (await download).path(), 'utf8')).trim().split('\r\n')
    t.equal(lines.length, 1 + count)
    await page.getByRole('combobox', { name: /^by/ }).selectOption('Publisher')
    await table.locator('tbody tr').filter({ hasText: 'pub-1' }).getByText('2,000').waitFor()
  })

  t.test('each other screen opens, with a bounded number of elements', async (t) => {
    const screens = {
      alerts: 'Alerts',
      minutes: 'Last two days',
      'go-live/supplier-999': 'Go live',
      holds: 'Holds',
      explain: 'Explain a bid',
      models: 'Models',
      audit: 'Audit',
      configuration: 'Configuration',
      users: 'Users',
      nodes: 'Nodes',
      'supplier/supplier-999': 'Supplier 999',
    }
    const all = new Set(['suppliers', 'reports', ...Object.keys(screens).map(nameOfScreen)])
    t.same(all, new Set(screenNames()), 'all screens')
    for (const [screen, heading] of Object.entries(screens)) {
      await show(page, base, screen, heading)
      const shown = await elements()
      t.comment(`${screen}: ${shown} elements`)
      t.ok(shown < 15 * count + elementsBeside, `${screen}: ${shown} elements`)
    }
  })

  t.test('no script failed', async (t) => t.same(faults, []))
})
