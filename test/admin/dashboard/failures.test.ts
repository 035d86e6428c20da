/**
 * The console while something fails: it says what happened and what to do, keeps what it has, and recovers by itself. A TCP
 * proxy between browser and service is the network.
 */
import t from 'tap'
import {
  browserAbsent,
  fillLogIn,
  launch,
  logIn,
  openPage,
  row,
  show,
  visit,
} from '../../support/console.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

t.test('the console while something fails', { skip: browserAbsent }, async (t) => {
  const supplier = await echoSupplier()
  const options = {
    suppliers: ['id: acme, name: Acme, account: acme-media, opd: {enabled: true, holdout: .5}'],
    endpoint: supplier.url,
  }
  const node = await serveNode(options)
  const secret = node.bidweir.password!
  const target = Number(new URL(node.admin).port)
  let network = await tcpProxy(target)
  const { port } = network
  const base = `http://127.0.0.1:${port}`
  const browser = await launch()
  const { page, faults } = await openPage(browser)
  t.teardown(async () => {
    await browser.close()
    await network.close()
    await node.stop()
    await supplier.close()
  })
  const alert = page.getByRole('alert')
  const away = alert.getByText(/bidweir cannot be reached: it does not run, or the network to it/)
  const back = async (to = target) => {
    network = await tcpProxy(to, 0, port)
  }
  const type = 'application/problem+json'
  const gone = (locator: typeof alert) => locator.waitFor({ state: 'detached' })

  t.test('nobody can log in while the service is away', async () => {
    await visit(page, base)
    await page.getByLabel('User').waitFor()
    await network.close()
    await page.getByLabel('User').fill('admin')
    await page.getByLabel('Password').fill(secret)
    await page.getByRole('button', { name: 'Log in' }).click()
    await away.waitFor()
    await back()
    await fillLogIn(page, 'admin', secret)
    await row(page, 'Acme').waitFor()
  })

  t.test('an open page keeps its figures, says of when they are, and goes on', async (t) => {
    await network.close()
    await away.waitFor()
    t.match(await away.textContent(), /The page tries again by itself. The figures below are of/)
    t.ok(await row(page, 'Acme').isVisible())
    await page.goto(`${base}/#/audit`)
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor()
    await page.getByText('Not read yet.').waitFor()
    t.equal(await alert.filter({ visible: true }).count(), 1, 'it is said once')
    await back()
    await gone(away)
    await until(async () => (await page.getByText('Not read yet.').count()) === 0)
  })

  t.test('a service that accepts and does not answer is named as slow', async () => {
    await show(page, base, 'suppliers', 'Suppliers')
    network.swallow(true)
    await alert.getByText('bidweir takes longer than 5 s to answer').waitFor()
    network.swallow(false)
    await gone(alert.getByText(/bidweir/))
  })

  t.test('a fault of the service is not one of the browser, and passes', async () => {
    await show(page, base, 'suppliers', 'Suppliers')
    const problem = { code: 'internal', title: 'Internal Server Error' }
    const path = '**/api/svc/audit/**'
    await page.route(path, (route) =>
      route.fulfill({ status: 500, contentType: type, body: JSON.stringify(problem) }),
    )
    await page.goto(`${base}/#/audit`)
    const alertText = alert.getByText(
      'Not read: bidweir had an error of its own (500): its log says why',
    )
    await alertText.waitFor()
    await page.unroute(path)
    await gone(alertText)
    const live = '**/api/svc/live/list/**'
    await page.route(live, (route) =>
      route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad Gateway</h1>' }),
    )
    const proxied = alert.getByText('bidweir cannot be reached behind its proxy (502)')
    await proxied.waitFor()
    await page.unroute(live)
    await gone(proxied)
  })

  t.test('who may not read something learns whom to ask', async () => {
    const user = { name: 'eve', password: 'secret-1', roles: ['viewer'], account: 'acme-media' }
    await node.api('/api/svc/users/', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(user),
    })
    await logIn(page, base, 'eve')
    await row(page, 'Acme').waitFor()
    const forbidden = { code: 'forbidden', title: 'The caller may not do this' }
    await page.route('**/api/svc/audit/**', (route) =>
      route.fulfill({ status: 403, contentType: type, body: JSON.stringify(forbidden) }),
    )
    await page.goto(`${base}/#/audit`)
    await page
      .getByText(/lacks the role or the account for it. An operator can give both/)
      .waitFor()
  })

  t.test(
    'a service that does not know the session asks for it again, and goes on there',
    async () => {
      await logIn(page, base, 'admin', '', secret)
      await show(page, base, 'supplier/acme', 'Acme')
      const fresh = await serveNode(options)
      t.teardown(() => fresh.stop())
      await network.close()
      await back(Number(new URL(fresh.admin).port))
      await page.getByText('Your session has ended: log in again').waitFor()
      await fillLogIn(page, 'admin', fresh.bidweir.password!)
      await page.getByRole('heading', { level: 1, name: 'Acme' }).waitFor()
    },
  )

  t.test('without data each screen says what is missing', async (t) => {
    for (const [screen, text] of [
      ['supplier/acme', /no requests and no calls|No requests/],
      ['reports', /No bids and no wins in this range/],
      ['minutes', /./],
      ['alerts', /No alert|nothing/i],
      ['explain', /./],
      ['supplier/nothing', /./],
      ['nothing', /No such screen/],
    ] as const) {
      await page.goto(`${base}/#/${screen}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await until(async () => (await page.getByText('Loading…').count()) === 0)
      await page.locator('main').getByText(text).first().waitFor()
      t.notMatch(await page.locator('main').innerText(), /NaN|undefined|null|\[object/, screen)
    }
  })
  t.test('no script failed', async (t) => t.same(faults, []))
})
