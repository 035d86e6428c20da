/** The console of a new node: without suppliers, then with one that a person adds, which has no traffic. Each screen says what to do next. */
import t from 'tap'
import {
  browserAbsent,
  confirm,
  fillLogIn,
  launch,
  nameOfScreen,
  openPage,
  press,
  screenNames,
  show,
  visit,
} from '../../support/console.ts'
import { serveNode } from '../../support/served-node.ts'
import { until } from '../../support/until.ts'

/** Panels without anything but their heading, and values that are no text for people. */
const odd = `[
  ...[...document.querySelectorAll('main section, main .sheet, main table, main pre')]
    .filter((each) => each.checkVisibility())
    .filter((each) => {
      const copy = each.cloneNode(true)
      for (const head of copy.querySelectorAll('h2, h3, caption, thead')) head.remove()
      return copy.textContent.trim() === '' && copy.querySelector('input, canvas, svg') === null
    })
    .map((each) => 'blank: ' + each.outerHTML.slice(0, 200)),
  ...(document.querySelector('#app').innerText.match(/.*(NaN|undefined|Infinity|\\[object|\\bnull\\b(?!$)).*/gm) ?? []),
]`

t.test('the console of a new node', { skip: browserAbsent }, async (t) => {
  const node = await serveNode({ suppliers: [], endpoint: '' })
  const browser = await launch()
  const { page, faults } = await openPage(browser)
  t.teardown(async () => {
    await browser.close()
    await node.stop()
  })
  const base = node.admin
  // a call that fails is an error of the console, too
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`${page.url()}: ${message.text()}`)
  })
  await visit(page, base)
  await fillLogIn(page, 'admin', node.bidweir.password!)

  const none = /There is no supplier yet\. Add one on the screen Configuration/
  const empty: Readonly<Record<string, readonly [heading: string, text: RegExp]>> = {
    suppliers: ['Suppliers', none],
    'supplier/gone': ['No such supplier', /does not exist.*All suppliers/],
    alerts: ['Alerts', /No alert is open/],
    minutes: ['Last two days', none],
    reports: ['Reports', none],
    'reports?by=hour&and=country': ['Reports', none],
    'go-live': ['Go live', none],
    holds: ['Holds', none],
    explain: ['Explain a bid', /Context, bid id, or the whole win notice/],
    models: ['Models', /None yet: one is written every five minutes/],
    audit: ['Audit', /user add/],
    configuration: ['Configuration', none],
    users: ['Users', /Add a user/],
    nodes: ['Nodes', /Only this/],
  }

  t.test('without suppliers each screen says what to do next', async (t) => {
    t.same(new Set(Object.keys(empty).map(nameOfScreen)), new Set(screenNames()), 'all screens')
    for (const [screen, [heading, text]] of Object.entries(empty)) {
      await show(page, base, screen, heading)
      await until(async () => text.test(await page.locator('main').innerText()), {
        what: `${screen}: ${text}`,
      })
      t.same(await page.evaluate(odd), [], screen)
    }
    await show(page, base, 'suppliers', 'Suppliers')
    await page.locator('main').getByRole('link', { name: 'Configuration' }).click()
    await page.getByRole('heading', { level: 1, name: 'Configuration' }).waitFor()
  })

  t.test('a supplier is added where the first screen says, and has no figure yet', async (t) => {
    await page.getByText('Add a supplier').click()
    await page.getByLabel(/^Id,/).fill('first')
    await page.getByLabel('Endpoints, one a line').fill('http://127.0.0.1:1/openrtb')
    await press(page, 'Show the difference')
    await confirm(page, 'Add supplier', 'Supplier first is added')
    const next: Readonly<Record<string, readonly [heading: string, text: RegExp]>> = {
      suppliers: ['Suppliers', /No requests/],
      'supplier/first': ['first', /No requests in the last minutes\. Bid requests to \/bid\/first/],
      minutes: ['Last two days', /By minute/],
      reports: ['Reports', /No bids and no wins in this range\. .*Go live/],
      'go-live': ['Go live', /Next: shadow.*1\. Pass through now/s],
      holds: ['Holds', /there is nothing to hold\. Go live has the steps/],
      models: ['Models', /Reset the model/],
      audit: ['Audit', /supplier create.*first/s],
      configuration: ['Configuration', /Suppliers \(1\)/],
    }
    for (const [screen, [heading, text]] of Object.entries(next)) {
      await show(page, base, screen, heading)
      await until(async () => text.test(await page.locator('main').innerText()), {
        what: `${screen}: ${text}`,
      })
      t.same(await page.evaluate(odd), [], screen)
    }
  })

  t.test('with OPD in shadow, every figure is a dash or says that it is unknown', async (t) => {
    await show(page, base, 'go-live', 'Go live')
    await press(page, 'Next: shadow')
    await confirm(page, 'Apply', 'first: shadow')
    await show(page, base, 'supplier/first', 'first')
    await page.getByText('OPD is in shadow').waitFor()
    await page.getByText('No bid was decided since the nodes started. The curve comes').waitFor()
    const main = await page.locator('main').innerText()
    for (const text of [
      'No bid was decided since the nodes started.',
      'No bid was priced.',
      'No bids in this range.',
      'unknown: too few wins, or no holdout to compare with',
    ])
      t.match(main, text)
    t.same(await page.evaluate(odd), [])
  })

  t.test('nothing was reported as an error of the page', async (t) => t.same(faults, []))
})
