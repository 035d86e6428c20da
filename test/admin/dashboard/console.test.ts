/** The console in a browser, against a running service with bid traffic: figures, log-in, and every switch. */
import t from 'tap'
import {
  browserAbsent,
  confirm,
  consoleInBrowser,
  logIn,
  openPage,
  password,
  press,
  row,
} from '../../support/console.ts'
import { until } from '../../support/until.ts'
import { accessibility } from './accessible.ts'

t.test('the console', { skip: browserAbsent }, async (t) => {
  const world = await consoleInBrowser(t)
  const { base, api, browser, fail } = world
  const held = async () =>
    ((await (await api('/api/svc/opd/')).json()) as { supplier: string; hold: boolean }[])
      .filter(({ hold }) => hold)
      .map(({ supplier }) => supplier)

  t.test('the page needs no other host, and its policy allows none', async (t) => {
    const response = await fetch(base)
    t.match(
      response.headers.get('content-security-policy'),
      /^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';/,
    )
    t.notMatch(await response.text(), /https?:\/\//)
    t.equal((await fetch(`${base}/api/svc/live/`)).status, 401)
  })

  t.test('suppliers: problems first, unknown is not 0, totals, search', async (t) => {
    await fail()
    const { page, faults } = await openPage(browser)
    const others: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(base)) others.push(request.url())
    })
    await page.goto(base)
    await page.getByLabel('User').fill('op')
    await page.getByLabel('Password').fill('wrong-one')
    await press(page, 'Log in')
    await page.getByText('user or password is wrong').waitFor()
    await page.getByLabel('Password').fill(password)
    await page.keyboard.press('Enter')
    const acme = row(page, 'Acme')
    await acme.getByText(/^USD/).waitFor()
    const first = async () => (await page.locator('tbody tr').allTextContents())[0] ?? ''
    t.match(await page.title(), /^\(1\) Suppliers/, 'the title of the page counts it')
    t.match(
      await first(),
      /^Down <b>.*Fault.*no request was answered.*100%/s,
      'a dead supplier is on top',
    )
    const idle = await row(page, 'Idle').locator('td').allTextContents()
    t.match(idle[0], 'No requests')
    t.same(idle.slice(2, 9), ['–', '–', '–', '–', '–', '–', '–'], 'nothing is known')
    await until(async () => /floor 80%/.test((await acme.textContent()) ?? ''))
    const [report] = (await (await api('/api/svc/reports/margin?by=ssp&ssp=acme')).json()) as {
      revenue: string
      wins: number
    }[]
    t.ok(Number(report!.revenue) < report!.wins / 10, 'amounts are in currency units, not CPM')
    const shown = (await acme.locator('td').nth(6).textContent()) ?? ''
    t.ok(Number(shown.replace(/[^\d.-]/g, '')) > 0, `the margin today: ${shown}`)
    t.match(await page.locator('tfoot').textContent(), /Total of 3.*bids.*USD/s)
    await page.getByLabel('Search').fill('idle')
    await page.getByText('Total of 1').waitFor()
    await page.getByLabel('Search').fill('nothing such')
    await page.getByText('No supplier matches').waitFor()
    await page.getByLabel('Search').fill('')
    await press(page, 'Supplier')
    await until(async () => /^Acme/.test(await first()))
    t.equal(await page.getByText('Revenue minus cleared prices').isVisible(), false)
    await page.getByRole('columnheader', { name: 'Margin today' }).locator('.help').click()
    await page.getByText('Revenue minus cleared prices').waitFor()
    t.same([faults, others], [[], []])
    await page.close()
  })

  t.test('a hold asks back, is pending, and can be undone; no click is lost', async (t) => {
    const { page, faults } = await openPage(browser)
    await logIn(page, base, 'op')
    const button = page.getByRole('button', { name: 'Hold Acme', exact: true })
    await button.hover()
    await page.mouse.down()
    // the figures change while the button is pressed
    for (let polls = 0; polls < 2; polls++)
      await page.waitForResponse((response) => response.url().includes('/api/svc/live/'))
    await page.mouse.up()
    await page.getByRole('dialog').getByText('factor 1').waitFor()
    await press(page, 'Cancel')
    t.same(await held(), [], 'nothing happened')
    await button.click()
    await page.route('**/api/svc/opd/acme/', async (route) => {
      await page.getByRole('button', { name: 'Working…' }).waitFor()
      await route.continue()
    })
    await confirm(page, 'Hold', 'Acme is on hold.')
    t.same(await held(), ['acme'])
    await page.unroute('**/api/svc/opd/acme/')
    await row(page, 'Acme').getByText('on hold', { exact: true }).waitFor()
    await press(page, 'Undo')
    await page.getByText('Undone.').waitFor()
    t.same(await held(), [])
    await press(page, 'Hold all integrations')
    await confirm(page, 'Hold', 'all integrations is on hold.')
    await page.getByText('All integrations are on hold').waitFor()
    t.same(await held(), ['*'])
    await press(page, 'Release all integrations')
    await confirm(page, 'Release', 'all integrations is released.')
    t.same(await held(), [])
    await page.goto(`${base}/#/holds`)
    await press(page, 'Hold Acme')
    await page.route('**/api/svc/opd/acme/', (route) => route.abort())
    await page.getByRole('dialog').getByRole('button', { name: 'Hold', exact: true }).click()
    await page.getByText('Not changed:').waitFor()
    t.same(await held(), [], 'the failure is shown in the dialog')
    t.same(faults, [])
    await page.close()
  })

  t.test('seats, data centers and allotments: asked back, and undone', async (t) => {
    const qps = [{ location: 'us-east', value: 900 }]
    const body = {
      dsp_seats: [{ name: 's1', name_external: 'S1', is_active: true, qps }],
      datacenters: [{ location: 'us-east', client_qps: 500, is_active: true }],
    }
    t.equal((await api('/api/svc/ssp/idle/', 'POST', body)).status, 201)
    const supplier = async () => (await (await api('/api/svc/ssp/idle/')).json()) as typeof body
    const { page, faults } = await openPage(browser)
    await logIn(page, base, 'op', 'supplier/idle')
    await press(page, 'Switch off seat s1')
    await page.getByRole('dialog').getByText('are removed from every bid response').waitFor()
    await confirm(page, 'Switch off', 'Seat s1 is off.')
    t.equal((await supplier()).dsp_seats[0]!.is_active, false)
    await press(page, 'Undo')
    await page.getByText('Undone.').waitFor()
    t.equal((await supplier()).dsp_seats[0]!.is_active, true)
    await press(page, 'Switch off data center us-east')
    await confirm(page, 'Switch off', 'Data center us-east is off.')
    t.equal((await supplier()).datacenters[0]!.is_active, false)
    await press(page, 'Switch on data center us-east')
    await confirm(page, 'Switch on', 'Data center us-east is on.')
    const allotment = page.getByRole('spinbutton')
    await allotment.fill('901')
    await press(page, 'Change the allotment of us-east')
    await page.getByRole('dialog').getByRole('button', { name: 'Change' }).click()
    await page.getByText(/Not changed: client_qps 901 .* exceeds 900/).waitFor()
    // Asked again as soon as the dialog closes, when its event is on the way.
    await page.evaluate(`new Promise((resolve) => {
      const dialog = document.querySelector('dialog')
      const observer = new MutationObserver(() => {
        observer.disconnect()
        dialog.addEventListener('close', () => resolve())
        document.querySelector('[aria-label="Change the allotment of us-east"]').click()
      })
      observer.observe(dialog, { attributeFilter: ['open'] })
      for (const button of dialog.querySelectorAll('button'))
        if (button.textContent === 'Cancel') button.click()
    })`)
    await page.getByRole('dialog').getByText('may send 901 requests / s').waitFor()
    await press(page, 'Cancel')
    // A dialog that closes takes the focus from what is filled meanwhile.
    await page.getByRole('dialog').waitFor({ state: 'hidden' })
    await allotment.fill('800')
    await press(page, 'Change the allotment of us-east')
    await confirm(page, 'Change', 'The allotment of us-east is 800 requests / s.')
    t.equal((await supplier()).datacenters[0]!.client_qps, 800)
    await press(page, 'Undo')
    await page.getByText('Undone.').waitFor()
    t.equal((await supplier()).datacenters[0]!.client_qps, 500)
    await page.getByText('Add a seat').click()
    await page.getByLabel('Name in bid responses').fill('s2')
    await page.getByLabel('Allotment in us-east').fill('100')
    await press(page, 'Add seat')
    await page.getByRole('dialog').getByText('100 requests / s in us-east').waitFor()
    await confirm(page, 'Add seat', 'Seat s2 is added.')
    await page.getByRole('listitem').filter({ hasText: 's2' }).getByText('us-east 100').waitFor()
    t.match((await supplier()).dsp_seats, [{ name: 's1' }, { name: 's2', qps: [{ value: 100 }] }])
    t.same(faults, [])
    await page.close()
  })

  t.test('a viewer sees figures of the account, and no button that changes anything', async (t) => {
    const { page } = await openPage(browser)
    await logIn(page, base, 'eve')
    await row(page, 'Acme').waitFor()
    t.equal(await page.locator('tbody tr').count(), 2, 'not those of other accounts')
    const changing = /hold|release|switch|change|freeze|roll|reset|able/i
    for (const screen of ['suppliers', 'supplier/acme', 'holds', 'models', 'users']) {
      await page.goto(`${base}/#/${screen}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await until(async () => (await page.getByText('Loading…').count()) === 0)
      const names = await page.locator('main button:not(.help):not(.sort)').allTextContents()
      t.same(
        names.filter((name) => changing.test(name)),
        [],
        screen,
      )
    }
    await page.goto(`${base}/#/supplier/idle`)
    await page.getByText('belongs to another account').waitFor()
    await page.close()
  })

  t.test('the role api edits seats, and does not hold', async (t) => {
    const { page } = await openPage(browser)
    await logIn(page, base, 'ann', 'supplier/acme')
    await page.getByRole('heading', { name: 'Seats and data centers' }).waitFor()
    t.equal(await page.getByRole('button', { name: /^Hold/ }).count(), 0)
    await page.close()
  })

  t.test('stale figures look stale, and recover', async (t) => {
    const { page } = await openPage(browser)
    await logIn(page, base, 'eve')
    await row(page, 'Acme').waitFor()
    await page.route('**/api/svc/live/**', (route) => route.abort())
    await page.getByText(/Not up to date: .* The figures below are of/).waitFor()
    t.match(await page.locator('main').getAttribute('class'), 'stale')
    await page.unroute('**/api/svc/live/**')
    await page.getByText('Not up to date').waitFor({ state: 'detached' })
    await page.close()
  })

  t.test('a session renews itself, and ends everywhere at log-out', async (t) => {
    const { page } = await openPage(browser)
    await logIn(page, base, 'eve')
    const session = () => page.evaluate("JSON.parse(sessionStorage.getItem('bidweir'))")
    const { refresh } = (await session()) as { refresh: string }
    const expired = JSON.stringify({ access: 'expired', refresh })
    await page.evaluate(`sessionStorage.setItem('bidweir', '${expired}')`)
    await page.reload()
    await row(page, 'Acme').waitFor()
    const renewed = (await session()) as { refresh: string }
    t.not(renewed.refresh, refresh)
    const revoked = page.waitForResponse((response) => response.url().endsWith('/revoke'))
    await press(page, 'Log out')
    t.equal((await revoked).status(), 200)
    const again = {
      client_id: 'public-client',
      grant_type: 'refresh_token',
      refresh_token: renewed.refresh,
    }
    const url = `${base}/auth/realms/main/protocol/openid-connect/token`
    const refused = await fetch(url, { method: 'POST', body: new URLSearchParams(again) })
    t.equal(refused.status, 400)
    await page.getByRole('button', { name: 'Log in' }).waitFor()
    t.equal(await page.evaluate('sessionStorage.length'), 0)
    t.equal(await page.getByText('Acme').count(), 0, 'no figure stays')
    await page.evaluate(`sessionStorage.setItem('bidweir', '{"access":"old","refresh":"old"}')`)
    await page.reload()
    await page.getByText('Your session has ended: log in again').waitFor()
    await page.close()
  })

  t.test('each screen is accessible', (t) => accessibility(t, world))
})
