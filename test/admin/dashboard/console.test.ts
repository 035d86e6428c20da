/** The console in a browser, against a running service with bid traffic: figures, log-in, and every switch. */
import t from 'tap'
import {
  browserAbsent,
  consoleInBrowser,
  logIn,
  password,
  press,
  row,
} from '../../support/console.ts'
import { until } from '../../support/until.ts'
import { accessibility } from './accessible.ts'
import { alerts } from './alerts.ts'
import { configuring } from './configure.ts'
import { goingLive } from './going-live.ts'
import { minutes } from './minutes.ts'
import { reports } from './reports.ts'
import { screens } from './screens.ts'
import { switches } from './switches.ts'
import { truth } from './truth.ts'
import { manySuppliers, waysOfUse } from './ways.ts'
import { weight } from './weight.ts'

t.test('the console', { skip: browserAbsent }, async (t) => {
  const world = await consoleInBrowser(t)
  const { base, api, page, faults, fail } = world
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
    await page.getByRole('columnheader', { name: 'Margin today' }).getByText('USD').waitFor()
    await acme
      .locator('td')
      .nth(1)
      .getByText(/\d\.\d\d/)
      .waitFor()
    const first = async () => (await page.locator('tbody tr').allTextContents())[0] ?? ''
    t.match(await page.title(), /^\(1\) Suppliers/, 'the title of the page counts it')
    t.match(
      await first(),
      /^Down <b>.*Fault.*no request was answered.*100%/s,
      'a supplier that does not answer is on top',
    )
    const idle = await row(page, 'Idle').locator('td').allTextContents()
    t.match(idle[0], 'No requests')
    t.same(idle.slice(1, 9), ['–', '–', '–', '–', '0', '–', '–', '–'], 'nothing is known')
    await until(async () => /floor 80%/.test((await acme.textContent()) ?? ''))
    const [report] = (await (await api('/api/svc/reports/margin?by=ssp&ssp=acme')).json()) as {
      revenue: string
      wins: number
    }[]
    t.ok(Number(report!.revenue) < report!.wins / 10, 'amounts are in currency units, not CPM')
    const shown = (await acme.locator('td').nth(1).textContent()) ?? ''
    t.ok(Number(shown.replace(/[^\d.-]/g, '')) > 0, `the margin today: ${shown}`)
    t.match(await page.locator('tfoot').textContent(), /Total of 3.*\d\.\d\d.*bids/s)
    await page.getByLabel('Search').fill('idle')
    await page.getByText('Total of 1').waitFor()
    await page.getByLabel('Search').fill('nothing such')
    await page.getByText('No supplier matches').waitFor()
    await page.getByLabel('Search').fill('')
    await press(page, 'Supplier')
    await until(async () => /^Acme/.test(await first()))
    t.equal(await page.getByText('Revenue minus cleared prices').isVisible(), false)
    await page.getByRole('columnheader', { name: 'Margin today' }).locator('.help').focus()
    await page.getByText('Revenue minus cleared prices').waitFor()
    t.same([faults, others], [[], []])
  })

  t.test('every switch', (t) => switches(t, world))

  t.test('a viewer sees figures of the account, and no button that changes anything', async (t) => {
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
    await page.getByRole('button', { name: /^viewer, account / }).click()
    await page.getByText('all else the role operator').waitFor()
    await page.keyboard.press('Escape')
  })

  t.test('the role api edits seats, and does not hold', async (t) => {
    await logIn(page, base, 'ann', 'supplier/acme')
    await page.getByRole('heading', { name: 'Seats and data centers' }).waitFor()
    t.equal(await page.getByRole('button', { name: /^Hold/ }).count(), 0)
  })

  t.test('stale figures look stale, and recover', async (t) => {
    await logIn(page, base, 'eve')
    await row(page, 'Acme').waitFor()
    await page.route('**/api/svc/live/**', (route) => route.abort())
    await page.getByText(/Not up to date: .* The figures below are of/).waitFor()
    t.match(await page.locator('main').getAttribute('class'), 'stale')
    await page.unroute('**/api/svc/live/**')
    await page.getByText('Not up to date').waitFor({ state: 'detached' })
  })

  t.test('a session renews itself, and ends everywhere at log-out', async (t) => {
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
  })

  t.test('what the page loads', (t) => weight(t, world))
  t.test('the other screens', (t) => screens(t, world))
  t.test('alerts', (t) => alerts(t, world))
  t.test('by minute', (t) => minutes(t, world))
  t.test('reports', (t) => reports(t, world))
  t.test('the console shows the present values', (t) => truth(t, world))
  t.test('suppliers are configured', (t) => configuring(t, world))
  t.test('a supplier goes live', (t) => goingLive(t, world))
  t.test('in each way that people use it', (t) => waysOfUse(t, world))
  t.test('each screen is accessible', (t) => accessibility(t, world))
  t.test('of many suppliers', (t) => manySuppliers(t, world))
})
