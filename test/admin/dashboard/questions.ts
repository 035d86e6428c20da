/**
 * A part of earnings.test.ts: the questions that a person has, answered from the first page by clicks alone, with the data of the
 * demo. Each says where one clicks, and what has to be on the screen.
 */
import { DatabaseSync } from 'node:sqlite'
import type { Locator, Page } from 'playwright-core'
import type { Test } from 'tap'
import { fillLogIn, row, visit } from '../../support/console.ts'
import { startLimit, until } from '../../support/until.ts'

interface Asked {
  page: Page
  base: string
  /** The bid traffic. */
  proxy: string
  database: string
  secret: string
  /** Requests to the supplier that is down: the figures are those of the last minutes. */
  fail(): Promise<void>
}

/** Clicks and choices until the answer is on the screen, besides those that make a change. */
const fewClicks = 4

export async function questions(t: Test, { page, base, proxy, database, secret, fail }: Asked) {
  let clicks = 0
  const click = async (what: Locator) => {
    clicks++
    await what.first().click()
  }
  const main = page.locator('main')
  const link = (name: string) => page.getByRole('link', { name, exact: true })
  const button = (name: string) => page.getByRole('button', { name, exact: true })
  const dialog = page.getByRole('dialog')
  /** A panel by its heading. */
  const panel = (name: string) =>
    page.locator('section').filter({ has: page.locator('h2', { hasText: name }) })
  const confirmed = async (verb: string, message: string) => {
    await dialog.getByRole('button', { name: verb, exact: true }).click()
    await page.getByRole('status').getByText(message).waitFor()
    await dialog.waitFor({ state: 'hidden' })
  }
  const undo = async () => {
    await button('Undo').click()
    await page.getByRole('status').getByText('Undone.').waitFor()
  }
  const demo = row(page, 'Demo')
  const openDemo = async () => {
    await click(demo.getByRole('link'))
    await page.getByRole('heading', { level: 1, name: 'Demo' }).waitFor()
  }

  await visit(page, base)
  await fillLogIn(page, 'admin', secret)

  /** Begins on the first page, and counts the clicks to the answer. */
  const question = (text: string, answer: (t: Test) => Promise<void>) =>
    t.test(text, async (t) => {
      await link('bidweir').click()
      // The page before may have several rows of the supplier, its alerts.
      await page.getByRole('columnheader', { name: 'Margin today' }).waitFor()
      await demo.waitFor()
      clicks = 0
      await answer(t)
      t.ok(clicks <= fewClicks, `${clicks} clicks`)
    })

  question('1. What is the margin today, for each supplier?', async (t) => {
    await page.getByRole('columnheader', { name: 'Margin today' }).getByText('USD').waitFor()
    const margin = demo.locator('[data-name="Margin today, USD"]')
    await until(async () => Number((await margin.innerText()).replace(',', '')) > 0)
    await row(page, 'Delta Network').getByText('not proven').waitFor()
    t.equal(clicks, 0, 'the first page')
  })

  question('2. And by publisher and domain?', async () => {
    await click(link('Reports'))
    const report = page.getByRole('table', { name: 'Report', exact: true })
    // An alert begins once its condition has lasted for a minute. The first page, which is shown until then, has such a row too.
    await row(report, 'Delta Network').getByText('not proven').waitFor({ timeout: startLimit })
    await page
      .locator('tfoot')
      .getByText(/\d not proven$/)
      .waitFor()
    await page.getByRole('combobox', { name: /^by/ }).selectOption('Publisher')
    await page.getByRole('combobox', { name: /^and/ }).selectOption('Domain')
    clicks += 2
    await report
      .getByRole('row')
      .filter({ hasText: 'pub-1' })
      .getByText(/\.example$/)
      .first()
      .waitFor()
    await report.locator('thead').getByText('USD').first().waitFor()
  })

  question('3. Do I lose wins?', async (t) => {
    const kept = await demo.locator('[data-name="Kept wins"]').innerText()
    t.match(kept, /[\d.]+%\s+[\d.]+% to [\d.]+%\s+floor 80%/, 'rate, interval and floor')
    await openDemo()
    await main.getByText(/floor 80%; about [\d,]+ wins (fewer|more) than at full price/).waitFor()
    await main.getByText(/about USD\s[\d.,]+ of spend (fewer|more) than at full price/).waitFor()
  })

  question('4. Is it safe?', async () => {
    await openDemo()
    await panel('Guards')
      .getByRole('listitem')
      .filter({ hasText: /no guard acts|small reductions at first|factor 1/ })
      .first()
      .waitFor()
    await panel('Settings')
      .getByText(/At least 80% of the wins and 75% of the spend are kept/)
      .waitFor()
    await panel('Settings')
      .getByText(/No price falls below \d+% of the inbound price/)
      .waitFor()
  })

  question('5. Is it on?', async () => {
    await demo.getByRole('link').waitFor()
    await row(page, 'Down').getByText('OPD off').waitFor()
    await openDemo()
    await panel('Settings').getByText('OPD prices every auction.').waitFor()
  })

  question('6. How do I stop it now?', async (t) => {
    await click(button('Hold Demo'))
    await dialog.getByText(/leave at their own price .*within 2 seconds/).waitFor()
    clicks++
    await confirmed('Hold', 'Demo is on hold.')
    await demo.getByText('on hold').waitFor()
    t.equal(clicks, 2)
    await undo()
    await demo.getByText('on hold').waitFor({ state: 'detached' })
  })

  question('7. Why this price?', async (t) => {
    const body = JSON.stringify({
      id: 'explain-1',
      imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.1, tagid: 'top' }],
      site: { domain: 'news.example', publisher: { id: 'pub-1' } },
      tmax: 200,
    })
    let nurl = ''
    await until(async () => {
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${proxy}/bid/demo`, { method: 'POST', headers, body })
      nurl = /"nurl":"([^"]+svc_opd=[^"]+)"/.exec(await response.text())?.[1] ?? ''
      return nurl !== ''
    })
    await click(link('Explain a bid'))
    await page.getByLabel(/^Context, bid id/).fill(nurl)
    await click(button('Explain'))
    const found = page.getByRole('region', { name: 'Decision' })
    await found.waitFor()
    const text = await found.innerText()
    t.match(text, /Price in\s+[\d.]+ USD CPM/)
    t.match(text, /Price out\s+[\d.]+ USD CPM/)
    t.match(text, /Chance of winning\s+[\d.]+% at the price out, [\d.]+% at the price in/)
    t.match(text, /The (price out was sent|bid left at its own price)/)
  })

  question('8. Which supplier is broken?', async (t) => {
    await fail()
    await page.getByRole('button', { name: /^Fault: / }).waitFor()
    const first = main.locator('tbody tr').first()
    t.match(await first.innerText(), /Fault/, 'the first row')
    await row(page, 'Down').getByText('no request was answered').waitFor()
    t.equal(clicks, 0)
  })

  question('9. What would another price do, and other settings?', async (t) => {
    await openDemo()
    await page.getByRole('slider').fill('0.8')
    const curve = panel('What would happen at another price')
    await curve.getByText(/^Factor 0.8: these bids leave at [\d.]+ USD CPM on average/).waitFor()
    t.match(
      await curve.innerText(),
      /Chance of winning: [\d.]+%, that is [\d.]+% of the wins at the inbound price\.\s+Expected margin of 1,000 such bids: USD\s[\d.]+/,
    )
    const sheet = page.getByRole('region', { name: 'What if' })
    await sheet.getByLabel('minFactor').fill('90')
    await click(sheet.getByRole('button', { name: 'Replay' }))
    const result = sheet.getByRole('table', { name: 'What if' })
    await result.waitFor()
    for (const name of ['Margin of all bids', 'Kept wins', 'Kept spend'])
      t.match(
        await result.getByRole('row').filter({ hasText: name }).last().innerText(),
        /unknown|[\d.]+%? to /,
        name,
      )
  })

  question('10. Who switched it off?', async () => {
    await click(link('Audit'))
    await page.getByRole('combobox', { name: /^Supplier/ }).selectOption('Demo')
    clicks++
    const held = page.getByRole('row').filter({ hasText: 'false → true' })
    await held.filter({ hasText: 'hold' }).getByText('admin').first().waitFor()
  })

  question('11. Can I freeze, roll back or reset the models?', async () => {
    await click(link('Models'))
    await main.getByText(/learning$/).waitFor()
    await click(button('Freeze the models'))
    await dialog.getByText('All nodes keep their prices as they are and learn nothing').waitFor()
    await confirmed('Freeze', 'The models are frozen.')
    await main.getByText(/frozen$/).waitFor()
    await undo()
    await panel('Snapshots of the answering node').waitFor()
    await page.getByRole('combobox', { name: /^Supplier/ }).selectOption('Demo')
    await click(button('Reset the model'))
    await dialog.getByText('This cannot be undone, except by a roll-back').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
  })

  question('12. How do I stop a buyer, or limit the requests?', async () => {
    await openDemo()
    const sheet = panel('Seats and data centers')
    await click(sheet.getByText('Add a seat'))
    await sheet.getByLabel('Name in bid responses').fill('seat-aurora')
    await click(sheet.getByRole('button', { name: 'Add seat' }))
    await confirmed('Add seat', 'Seat seat-aurora is added.')
    await click(sheet.getByRole('button', { name: /^Switch off seat/ }))
    await dialog.getByText('Bids of seat seat-aurora are removed from every bid response').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await sheet.getByText('Add a data center').click()
    await sheet.getByLabel('Location of its nodes').fill('local')
    await sheet.getByRole('button', { name: 'Add data center' }).click()
    await confirmed('Add data center', 'Data center local is added.')
    await sheet.getByLabel('Allotment of local, requests a second').waitFor()
    await sheet.getByRole('button', { name: 'Switch off data center local' }).waitFor()
  })

  question('13. Who may log in?', async () => {
    await click(link('Users'))
    await page
      .getByRole('row', { name: /^admin viewer, api, operator \* \(all suppliers\)/ })
      .waitFor()
    await click(page.getByText('Add a user'))
    await page.getByLabel('Name', { exact: true }).fill('vera')
    await page.getByLabel(/^Password/).fill('secret-2')
    await page.getByLabel(/^Account/).fill('demo')
    await click(button('Add user'))
    await dialog.getByText(/vera .*sees the suppliers of account demo.*role viewer/).waitFor()
    await confirmed('Add user', 'vera is added.')
    await page.getByRole('row', { name: /^vera viewer demo/ }).waitFor()
  })

  question('14. What is wrong since when, and what was wrong?', async () => {
    {
      using db = new DatabaseSync(database, { timeout: 10_000 })
      const insert = db.prepare(`insert into alerts
        (rule, supplier, node, level, text, fix, began, opened, gone, ended)
        values (?, 'demo', '', 'warn', ?, 'Ask them.', ?, ?, ?, ?)`)
      const [began, over] = [Date.now() - 12_000_000, Date.now() - 300_000]
      insert.run('asked_open', '60% of the win notices are refused', began, began, null, null)
      insert.run('asked_ended', 'no bid contains the macro', began, began, over, over)
    }
    await click(link('Alerts'))
    const open = page.getByRole('table', { name: 'Open alerts' })
    await open
      .getByRole('row')
      .filter({ hasText: '60% of the win' })
      .getByText('3 hr 20 min')
      .waitFor()
    const past = page.getByRole('table', { name: 'Alerts that have ended' })
    await past.getByText(/No bid contains the macro/).waitFor()
    await page.getByText('Alerts are sent nowhere. To send them to a webhook').waitFor()
  })

  question('15. Which nodes are counted, and how is each?', async () => {
    await click(link('Nodes'))
    const node = page.getByRole('table', { name: 'Nodes' }).locator('tbody tr')
    await node.getByText('answered').waitFor()
    await node.getByText(/ s old$/).waitFor()
    await node.getByText(/OK$/).last().waitFor()
    await click(node.getByRole('button', { name: /^Only this/ }))
    await click(link('Suppliers'))
    await page.getByText(/, node .*-[0-9a-f]{4}\. Bids/).waitFor()
    await page.getByLabel('Figures of').selectOption({ index: 0 })
  })
}
