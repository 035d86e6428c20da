/** A part of console.test.ts: alerts that are open, those that have ended, and a webhook that can be tried. */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Test } from 'tap'
import { type ConsoleInBrowser, confirm, logIn, press, show } from '../../support/console.ts'
import { webhookReceiver, webhookSecret } from '../../support/webhook.ts'

const minute = 60_000

export async function alerts(t: Test, { base, page, folder, configure }: ConsoleInBrowser) {
  const now = Date.now()
  using database = new DatabaseSync(join(folder, 'b.db'), { timeout: 10_000 })
  const insert = database.prepare(`insert into alerts
    (rule, supplier, node, level, text, fix, began, opened, gone, ended)
    values (?, ?, '', 'warn', ?, 'Ask them.', ?, ?, ?, ?)`)
  const [began, over] = [now - 200 * minute, now - 5 * minute]
  insert.run('test_open', 'acme', '60% of the win notices are refused', began, began, null, null)
  insert.run('test_ended', 'acme', 'no bid contains the macro', began, began, over, over)
  insert.run('test_other', 'idle', 'another account', began, began, null, null)
  const open = page.getByRole('table', { name: 'Open alerts' })

  t.test('an account sees those of its suppliers, with what to do', async (t) => {
    await logIn(page, base, 'eve')
    await page.getByRole('link', { name: 'Alerts' }).click()
    const refused = open.getByRole('row').filter({ hasText: '60% of the win notices are refused.' })
    await refused.getByText('Ask them.').waitFor()
    await refused.getByText('3 hr 20 min').waitFor()
    t.equal(await page.getByText('Another account').count(), 0)
    const past = page.getByRole('table', { name: 'Alerts that have ended' })
    await past.getByText('3 hr 15 min').waitFor()
    t.match(await past.textContent(), /No bid contains the macro\..*Ask them\./s)
    await page.getByText('Alerts are sent nowhere').waitFor()
    await refused.getByRole('link', { name: 'Acme' }).click()
    await page.getByRole('heading', { level: 1, name: 'Acme' }).waitFor()
  })

  t.test('an operator tries the webhook', async (t) => {
    const { got, url } = await webhookReceiver<{ event: string }>(t)
    configure('admin: {', `admin: {alerts: {url: "${url}", secret: "${webhookSecret}"},`)
    await logIn(page, base, 'op')
    await show(page, base, 'alerts', 'Alerts')
    await open.getByText('Another account').waitFor()
    await page.getByLabel('Supplier').selectOption('acme')
    await open.getByText('Another account').waitFor({ state: 'detached' })
    await press(page, 'Send a test')
    await confirm(page, 'Send', 'The receiver has the test.')
    t.ok(got.events.some(({ event }) => event === 'alert_test'))
    got.status = 500
    await press(page, 'Send a test')
    await page.getByRole('dialog').getByRole('button', { name: 'Send' }).click()
    await page.getByText('Not sent: the receiver answered 500').waitFor()
    await press(page, 'Cancel')
  })
}
