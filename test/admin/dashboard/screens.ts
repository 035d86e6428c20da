/** A part of console.test.ts: each action of the other screens works. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { ModelManager } from '../../../opd/state/model-manager.ts'
import { type ConsoleInBrowser, confirm, logIn, press, show } from '../../support/console.ts'
import { silent } from '../../support/store.ts'
import { until } from '../../support/until.ts'

export async function screens(t: Test, world: ConsoleInBrowser) {
  const { base, proxy, api, page, faults } = world
  await logIn(page, base, 'op')

  t.test('history: range, measure, table and file', async (t) => {
    await show(page, base, 'supplier/acme', 'Acme')
    await page.locator('[aria-label="History"] canvas').waitFor()
    await page.getByText('The same as a table').click()
    const rows = page.locator('[aria-label="History as a table"] tbody tr')
    await rows.first().waitFor()
    await press(page, '7 days')
    await page.getByText('The same as a table').waitFor()
    await until(async () => (await page.getByLabel(/^by/).inputValue()) === 'day')
    t.match(page.url(), /days=7/, 'the address keeps the range')
    await page.getByLabel('shown').selectOption('Win rate')
    await page.getByRole('img', { name: /^Win rate/ }).waitFor()
    const publishers = page.getByRole('table', { name: 'Publishers' })
    const all = (await (
      await api('/api/svc/reports/margin?ssp=acme&by=publisher&top=1')
    ).json()) as { key: string; decided: number }[]
    const { key } = all[0]!
    const count = await rows.first().textContent()
    await publishers.getByRole('button', { name: key, exact: true }).click()
    await page.getByText(`Only publisher ${key}`).waitFor()
    t.match(page.url(), new RegExp(`publisher=${key}`))
    await until(async () => (await rows.first().textContent()) !== count)
    await page.getByRole('button', { name: `Only publisher ${key}: show all` }).click()
    await page.getByText(`Only publisher ${key}`).waitFor({ state: 'detached' })
    const download = page.waitForEvent('download')
    const seats = page.getByRole('table', { name: 'Seats' })
    await seats.getByRole('row').nth(2).waitFor()
    t.match(await seats.textContent(), /USD.*seat-\w+.*\d\.\d\d/s, 'each buyer with its margin')
    const sources = page.getByRole('table', { name: 'Sources' })
    await sources.getByRole('button', { name: 'Bid responses' }).waitFor()
    await press(page, 'Save CSV by publisher')
    const file = await download
    t.match(file.suggestedFilename(), /^bidweir-margin-\d{4}-\d\d-\d\d-to-\d{4}-\d\d-\d\d\.csv$/)
    const text = await readFile(await file.path(), 'utf8')
    t.match(text, /^publisher,decided,wins,revenue,.*currency\r\n/)
    t.match(text, /\r\npub-/)
    await page.getByLabel('Time zone').selectOption('UTC')
    await page.getByText('days of UTC').waitFor()
  })

  t.test('settings, guards, factors and the win curve are shown in words', async () => {
    const busiest = await api('/api/svc/reports/wins?ssp=acme&by=publisher&top=1')
    const [{ key: publisher }] = (await busiest.json()) as [{ key: string }]
    await show(page, base, 'supplier/acme', 'Acme')
    await page.getByText('At least 80% of the wins and 75% of the spend are kept').waitFor()
    await page.getByText('50% of the auctions are the holdout').waitFor()
    await page.getByRole('table', { name: 'Bids by factor' }).getByText('%').first().waitFor()
    await page.getByText(/no guard acts|a new model: small reductions at first/).waitFor()
    await page.getByText(/floor 80%; about \d+ wins (fewer|more) than at full price/).waitFor()
    await page.getByText(/floor 75%; about USD\s[\d.,]+ of spend (fewer|more)/).waitFor()
    await page.getByRole('slider').fill('0.8')
    await page.getByText(/Factor 0.8: these bids leave at [\d.]+ USD CPM on average/).waitFor()
    await page.getByText('of the wins at the inbound price').waitFor()
    await page.getByLabel('Publisher', { exact: true }).fill('never-seen')
    await press(page, 'Show')
    await page.getByText('Only 0 such bids are known').waitFor()
    await page.getByLabel('Publisher', { exact: true }).fill(publisher)
    await press(page, 'Show')
    await page.getByText(/Means over the last \d+ such bids/).waitFor()
    await world.fail()
    await show(page, base, 'supplier/down', 'Down <b>')
    await page.getByText('no request was answered').waitFor()
    await page.getByText(/\d+ failures in a row/).waitFor()
  })

  t.test(
    'what if: other settings are beside the present ones, and unknown figures say unknown',
    async (t) => {
      await show(page, base, 'supplier/acme', 'Acme')
      await page
        .getByRole('img', { name: /^Chance of winning by factor.*minFactor at factor/ })
        .waitFor()
      const sheet = page.getByRole('region', { name: 'What if' })
      await sheet.getByLabel('Share of auctions').fill('50')
      await sheet.getByLabel('minFactor').fill('90')
      await sheet.getByRole('button', { name: 'Replay' }).click()
      const result = sheet.getByRole('table', { name: 'What if' })
      await result.waitFor()
      t.match(
        await result.locator('tr').filter({ hasText: 'Share of auctions' }).textContent(),
        /100%50%$/,
      )
      t.match(await result.locator('tr').filter({ hasText: 'minFactor' }).textContent(), /90%$/)
      const margin = result.locator('tr').filter({ hasText: 'Margin of all bids' })
      t.match(await margin.textContent(), /unknown.*the model expects USD|USD.* to USD/s)
    },
  )

  t.test('a bid is explained by its notice, its context, or its id', async (t) => {
    const asked = JSON.stringify({
      id: 'explain-1',
      imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.1, tagid: 'top' }],
      site: { domain: 'news.example', publisher: { id: 'pub-1' } },
      tmax: 200,
    })
    let answer = ''
    await until(async () => {
      const response = await fetch(`${proxy}/bid/acme`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: asked,
      })
      answer = await response.text()
      return answer.includes('svc_opd=')
    })
    const { nurl } = (JSON.parse(answer) as { seatbid: { bid: { nurl: string }[] }[] }).seatbid[0]!
      .bid[0]!
    const query = new URL(nurl).searchParams
    const [context, bid] = [query.get('svc_opd')!, query.get('bid_id')!]
    await show(page, base, 'explain', 'Explain a bid')
    const field = page.getByLabel(/^Context, bid id/)
    await field.fill(nurl)
    await press(page, 'Explain')
    await page.getByRole('heading', { name: `acme, bid ${bid}` }).waitFor()
    t.match(await page.getByRole('region', { name: 'Decision' }).textContent(), /USD CPM/)
    await field.fill(context)
    await page.getByLabel(/^Bid id: a context/).fill(bid)
    await press(page, 'Explain')
    await page.getByRole('heading', { name: `acme, bid ${bid}` }).waitFor()
    await field.fill(bid)
    await press(page, 'Explain')
    await page.getByRole('heading', { name: `acme, bid ${bid}` }).waitFor()
    await field.fill('unknown-bid')
    await press(page, 'Explain')
    await page.getByText('No visible decision for this bid id').waitFor()
    t.equal(
      await page.getByRole('region', { name: 'Decision' }).count(),
      0,
      'no other bid is shown',
    )
  })

  t.test('models: freeze, undo, reset, roll back', async (t) => {
    const frozen = async () =>
      ((await (await api('/api/svc/models/')).json()) as { frozen: boolean }).frozen
    await show(page, base, 'models', 'Models')
    await press(page, 'Freeze the models')
    await confirm(page, 'Freeze', 'The models are frozen.')
    t.equal(await frozen(), true)
    await press(page, 'Undo')
    await page.getByText('Undone.').waitFor()
    t.equal(await frozen(), false)
    await page.getByLabel(/^Supplier/).selectOption('acme')
    await press(page, 'Reset the model')
    await confirm(page, 'Reset', 'The model begins again for acme.')
    await page.getByText('acme: 1 time').waitFor()
    const manager = new ModelManager({
      dir: join(world.folder, 'models'),
      ...{ attributionWindow: 5000, now: Date.now, log: silent },
    })
    await manager.save()
    await manager.close()
    await show(page, base, 'suppliers', 'Suppliers')
    await show(page, base, 'models', 'Models')
    await page
      .getByRole('button', { name: /^Roll back to revenue-/ })
      .first()
      .click()
    await page.getByRole('dialog').getByText('This cannot be undone').waitFor()
    await confirm(page, 'Roll back', 'The model of mode revenue is that of')
    await page.getByText(/mode revenue: .* 1, rolled back/).waitFor()
  })

  t.test('audit: who changed what, filtered, page by page', async (t) => {
    for (let index = 0; index < 52; index++)
      await api('/api/svc/opd/idle/', 'PUT', { hold: index % 2 === 0 })
    await show(page, base, 'audit', 'Audit')
    const rows = page.locator('tbody tr')
    t.match(await rows.first().textContent(), /admin.*idle.*hold.*true → false/s)
    t.equal(await rows.count(), 50)
    await press(page, 'Older')
    await page.getByText('freeze', { exact: true }).first().waitFor()
    await press(page, 'Newer')
    await page.getByLabel(/^Supplier/).selectOption('acme')
    await until(async () => /reset/.test((await rows.first().textContent()) ?? ''))
  })

  t.test('the configuration shows no secret', async (t) => {
    await show(page, base, 'configuration', 'Configuration')
    await page.getByLabel('Search').fill('down')
    await page.getByText('http://127.0.0.1:1/openrtb?…').waitFor()
    t.notMatch(await page.content(), 'token=secret')
    await page.getByLabel('Search').fill('attributionWindow')
    await page.getByText('attributionWindow: 5000').waitFor()
  })

  t.test('users: added, given a password, disabled, enabled, removed', async (t) => {
    await show(page, base, 'users', 'Users')
    await page.getByText('Add a user').click()
    await page.getByLabel('Name', { exact: true }).fill('zoe')
    await page.getByLabel(/^Password/).fill('secret-2')
    await page.getByLabel('Role').selectOption('api')
    await page.getByLabel(/^Account/).fill('acme-media')
    await press(page, 'Add user')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('sees the suppliers of account acme-media').waitFor()
    await confirm(page, 'Add user', 'zoe is added.')
    await page.getByRole('row', { name: /^zoe api acme-media .*enabled never/ }).waitFor()
    t.ok(await world.logIn('zoe', 'secret-2'))
    await press(page, 'Set password of zoe')
    await dialog.getByLabel(/^New password/).fill('secret-3')
    await page.route('**/users/zoe/passwd/', async (route) => {
      await page.getByRole('button', { name: 'Working…' }).waitFor()
      await route.continue()
    })
    await confirm(page, 'Set password', 'zoe has a new password.')
    t.notOk(await world.logIn('zoe', 'secret-2'))
    t.ok(await world.logIn('zoe', 'secret-3'))
    await press(page, 'Remove zoe')
    await dialog.getByText('are gone for good').waitFor()
    await confirm(page, 'Remove', 'zoe is removed.')
    await page.getByRole('row', { name: /^zoe/ }).waitFor({ state: 'detached' })
    t.notOk(await world.logIn('zoe', 'secret-3'))
    const trail = (await (await api('/api/svc/audit/?limit=3')).json()) as { action: string }[]
    t.match(trail, [
      { who: 'op', action: 'user_remove' },
      { who: 'op', action: 'user_passwd' },
      { who: 'op', action: 'user_add' },
    ])
    await press(page, 'Disable ann')
    await confirm(page, 'Disable', 'ann is disabled.')
    await page.getByRole('row', { name: /^ann/ }).getByText('disabled').waitFor()
    await press(page, 'Undo')
    await page.getByRole('row', { name: /^ann/ }).getByText('enabled').waitFor()
    for (const name of ['op', 'admin']) {
      await press(page, `Disable ${name}`)
      const dialog = page.getByRole('dialog')
      await dialog.getByRole('button', { name: 'Disable', exact: true }).click()
      if (name === 'op') await page.getByRole('status').getByText('op is disabled.').waitFor()
      else await page.getByText(/Not changed: Without this user nobody/).waitFor()
    }
    await press(page, 'Cancel')
    await press(page, 'Enable op')
    await confirm(page, 'Enable', 'op is enabled.')
  })

  t.test('one node alone', async () => {
    await show(page, base, 'nodes', 'Nodes')
    await page.getByRole('button', { name: /^Only/ }).click()
    await show(page, base, 'suppliers', 'Suppliers')
    await page.getByText(/, node .*-[0-9a-f]{4}\. Bids/).waitFor()
  })
  t.test('no script failed and no policy was broken', async (t) => t.same(faults, []))
}
