/** A part of console.test.ts: the ways in which people use the console: many suppliers, keyboard, selection, large text, other languages. */
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { type ConsoleInBrowser, logIn, openPage, row, show } from '../../support/console.ts'
import { until } from '../../support/until.ts'

const poll = (page: Page) =>
  page.waitForResponse((response) => response.url().includes('/api/svc/live/'))

export async function waysOfUse(t: Test, { base, api, browser, page, faults }: ConsoleInBrowser) {
  t.test('polls keep focus and selection, and say nothing to a screen reader', async (t) => {
    await logIn(page, base, 'op')
    await row(page, 'Acme')
      .locator('td')
      .nth(1)
      .getByText(/\d\.\d\d/)
      .waitFor()
    await page.evaluate(`
      window.spoken = 0
      const live = '[role=status], [role=alert], [aria-live]'
      new MutationObserver((changes) => {
        for (const { target } of changes)
          if ((target.closest ? target : target.parentElement)?.closest(live)) window.spoken += 1
      }).observe(document.body, { subtree: true, childList: true, characterData: true })
      const link = [...document.querySelectorAll('tbody a')].find((a) => a.textContent === 'Acme')
      getSelection().selectAllChildren(link)
      document.querySelector('button[aria-label="Hold Acme"]').focus()
      window.focused = document.activeElement`)
    const asOf = () => page.locator('.as-of').textContent()
    const before = await asOf()
    for (let polls = 0; polls < 3; polls++) await poll(page)
    await until(async () => (await asOf()) !== before)
    t.equal(await page.evaluate('String(getSelection())'), 'Acme')
    t.ok(await page.evaluate('document.activeElement === window.focused'))
    t.equal(await page.evaluate('window.spoken'), 0)
  })

  t.test('a hold and its undo by keyboard alone', async (t) => {
    const held = async () =>
      ((await (await api('/api/svc/opd/')).json()) as { hold: boolean }[]).some(({ hold }) => hold)
    const button = page.getByRole('button', { name: 'Hold Acme', exact: true })
    await button.focus()
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.waitFor()
    await page.keyboard.press('Escape')
    await dialog.waitFor({ state: 'hidden' })
    const focused = () => page.evaluate<boolean>("document.activeElement.ariaLabel === 'Hold Acme'")
    await until(focused, { what: 'the focus returns' })
    await page.keyboard.press('Enter')
    await dialog.getByRole('button', { name: 'Hold', exact: true }).focus()
    await page.evaluate(`
      const [status, dialog] = ['[role=status]', 'dialog'].map((name) => document.querySelector(name))
      new MutationObserver(() => { window.openBeside = dialog.open }).observe(status, { childList: true })`)
    await page.keyboard.press('Enter')
    await page.getByRole('status').getByText('Acme is on hold.').waitFor()
    t.equal(
      await page.evaluate('window.openBeside'),
      false,
      'the message can have the focus at once',
    )
    t.equal(await held(), true)
    await page.getByRole('button', { name: 'Undo' }).focus()
    await page.keyboard.press('Enter')
    await page.getByText('Undone.').waitFor()
    t.equal(await held(), false)
    t.same(faults, [])
  })

  t.test('the first stop of the keyboard skips to the content', async (t) => {
    await logIn(page, base, 'op')
    await row(page, 'Acme').waitFor()
    await page.evaluate('document.activeElement.blur()')
    await page.getByRole('link', { name: 'Skip to the content' }).focus()
    await page.keyboard.press('Enter')
    t.equal(await page.evaluate('document.activeElement.id'), 'content')
    t.match(page.url(), /#\/?$/, 'the screen stays')
  })

  t.test('the keyboard has few stops', async (t) => {
    await show(page, base, 'suppliers', 'Suppliers')
    await row(page, 'Acme').waitFor()
    /** Elements that Tab stops at within each that matches. */
    const stops = (selector: string) =>
      page.evaluate<
        number[]
      >(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((each) =>
        [...each.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
          .filter((stop) => stop.tabIndex >= 0 && stop.checkVisibility()).length)`)
    const [columns] = await page.evaluate<number[]>(
      "[document.querySelectorAll('thead th').length]",
    )
    const [head] = await stops('thead')
    t.ok(head! <= columns!, `${head} stops in the head of ${columns} columns`)
    const rows = await stops('tbody tr')
    t.ok(Math.max(...rows) <= 3, 'a name, what else is wrong, and a hold in each row')
    const [header] = await stops('header')
    const [links] = await stops('nav')
    t.ok(header! - links! <= 4, 'node, time zone, the first page and log-out, beside the menu')
  })

  t.test('text of twice the size fits, also on a phone', async (t) => {
    await page.setViewportSize({ width: 390, height: 844 })
    const size = () => page.evaluate<number>('parseFloat(getComputedStyle(document.body).fontSize)')
    const before = await size()
    await page.evaluate("document.documentElement.style.fontSize = '200%'")
    t.equal(await size(), 2 * before)
    for (const screen of ['suppliers', 'supplier/acme', 'explain', 'configuration', 'nodes']) {
      await page.goto(`${base}/#/${screen}`)
      await page.getByRole('heading', { level: 1 }).waitFor()
      const fits = () =>
        page.evaluate<boolean>('document.documentElement.scrollWidth <= innerWidth')
      await until(fits, { what: `${screen} does not scroll sideways` })
    }
    await page.setViewportSize({ width: 1440, height: 900 })
  })

  t.test('numbers of the language and times of the zone of the browser', async () => {
    const { page } = await openPage(browser, {
      locale: 'de-DE',
      timezoneId: 'America/New_York',
    })
    await logIn(page, base, 'op')
    const acme = row(page, 'Acme')
    await acme
      .locator('td')
      .nth(1)
      .getByText(/^-?\d+,\d{2,4}$/)
      .waitFor()
    await acme
      .getByText(/floor 80\s%/)
      .first()
      .waitFor()
    await page.goto(`${base}/#/supplier/acme`)
    await page.getByText('days of America/New_York').waitFor()
    await page.close()
  })

  t.test('an address or a stored time zone that is wrong breaks nothing', async () => {
    await logIn(page, base, 'op')
    await page.evaluate("localStorage.setItem('bidweir-zone', 'Mars/Olympus')")
    await page.goto('about:blank')
    await page.goto(`${base}/#/supplier/%zz`)
    await page.getByText('“%zz” does not exist, or belongs to another account').waitFor()
    await page.goto(`${base}/#/reports?by=%zz&tz=Mars&days=-3&hours=x`)
    await page.getByRole('heading', { level: 1, name: 'Reports' }).waitFor()
    await page.getByText('Not read: ').waitFor()
    await page.goto(`${base}/#/suppliers`)
    await row(page, 'Acme').waitFor()
  })

  t.test('the console says so to an account without suppliers', async () => {
    const user = { name: 'new', password: 'secret-1', roles: ['viewer'], account: 'nobody' }
    await api('/api/svc/users/', 'POST', user)
    await logIn(page, base, 'new')
    await page.getByText('No supplier belongs to the account nobody').waitFor()
  })
}

/** Head and totals stay in sight, and a state picks its rows. */
export async function manySuppliers(t: Test, { base, page, fail, addSuppliers }: ConsoleInBrowser) {
  addSuppliers(
    Array.from(
      { length: 200 },
      (_, n) =>
        `  - {id: s${n}, name: Supplier ${n}, account: others, endpoints: ["http://127.0.0.1:1"]}\n`,
    ).join(''),
  )
  addSuppliers(
    '  - {id: rtl, name: "שלום 24 עולם", account: others, endpoints: ["http://127.0.0.1:1"]}\n',
  )
  await fail()
  await show(page, base, 'suppliers', 'Suppliers')
  await page.getByText('Total of 206').waitFor()
  const rightToLeft = page.getByRole('link', { name: 'שלום 24 עולם', exact: true })
  t.equal(await rightToLeft.locator('bdi').count(), 1, 'it is isolated, so its row is not turned')
  t.ok(await page.evaluate('document.documentElement.scrollHeight <= 1.1 * innerHeight'))
  t.match(await page.locator('tbody tr').first().textContent(), /^Down <b>/)
  await page.getByRole('link', { name: 'Supplier 199', exact: true }).scrollIntoViewIfNeeded()
  for (const name of ['Total of 206', 'Margin today'])
    t.ok(
      await page.getByText(name, { exact: true }).evaluate((element) => {
        const { top, bottom } = (
          element as { getBoundingClientRect(): DOMRectLike }
        ).getBoundingClientRect()
        return top >= 0 && bottom <= 900
      }),
      `${name} is in sight`,
    )
  await page.getByRole('button', { name: 'Fault: 1' }).click()
  await page.getByText('Total of 1', { exact: true }).waitFor()
  t.equal(await page.locator('tbody tr').count(), 1)
  await page.setViewportSize({ width: 390, height: 844 })
  // what is wrong can be read on a phone, too
  await row(page, 'Down <b>').getByText('no request was answered').waitFor()
  await page.setViewportSize({ width: 1440, height: 900 })
  await page.getByRole('button', { name: 'Fault: 1' }).click()
  await page.getByText('Total of 206').waitFor()
}

interface DOMRectLike {
  top: number
  bottom: number
}
