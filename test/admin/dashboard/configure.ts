/** A part of console.test.ts: operators add, change and revert suppliers of the API. */
import type { Test } from 'tap'
import { type ConsoleInBrowser, confirm, logIn, press, show } from '../../support/console.ts'
import { until } from '../../support/until.ts'

export async function configuring(t: Test, world: ConsoleInBrowser) {
  const { base, proxy, api, page, faults } = world
  const bid = async (ssp = 'delta', body = '{"id":"q","imp":[{"id":"1"}]}') => {
    const response = await fetch(`${proxy}/bid/${ssp}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    await response.body?.cancel()
    return response.status
  }
  const stored = async () =>
    // biome-ignore lint/suspicious/noExplicitAny: compared with what is expected
    (await (await api('/api/svc/suppliers/delta/')).json()) as any
  const remove = async (id: string) => {
    const path = `/api/svc/suppliers/${id}/`
    const { version } = (await (await api(path)).json()) as { version: number }
    const deleted = await fetch(`${base}${path}`, {
      method: 'DELETE',
      headers: {
        authorization: `Bearer ${await world.logIn('op', 'secret-1')}`,
        'if-match': `"${version}"`,
      },
    })
    return deleted.status
  }
  const dialog = page.getByRole('dialog')
  await logIn(page, base, 'op')

  t.test('a supplier is added, after its difference was shown', async (t) => {
    await show(page, base, 'configuration', 'Configuration')
    await page.getByText('Add a supplier').click()
    await page.getByLabel(/^Id,/).fill('delta')
    await page.getByLabel(/^Account whose/).fill('acme-media')
    await page.getByLabel('Endpoints, one a line').fill('ftp://wrong')
    await press(page, 'Show the difference')
    await page.getByText(/found "ftp:\/\/wrong", allowed/).waitFor()
    await page.getByLabel('Endpoints, one a line').fill('http://127.0.0.1:1/openrtb')
    await press(page, 'Show the difference')
    await dialog.getByText(/added: .*127\.0\.0\.1:1/).waitFor()
    t.equal(await bid(), 404, 'not before it is confirmed')
    await confirm(page, 'Add supplier', 'Supplier delta is added')
    t.equal(await bid(), 204)
    t.match(await stored(), { origin: 'api', version: 1, account: 'acme-media' })
  })

  t.test('OPD goes from shadow to a share to on, with floors and caps', async (t) => {
    await show(page, base, 'supplier/delta', 'delta')
    for (const [state, share, line] of [
      ['shadow', '', /opd: not set → .*shadow/],
      ['true', '0.1', /opd\.share: .* → 0\.1/],
      ['true', '1', /opd\.share: 0\.1 → 1/],
    ] as const) {
      const { version } = await stored()
      await page.locator('select[name=enabled]').selectOption(state)
      await page.getByLabel('Share of auctions that OPD prices').fill(share)
      await press(page, 'Show the difference')
      await dialog.getByText(line).waitFor()
      await confirm(page, 'Apply', 'delta is changed')
      t.equal((await stored()).version, version + 1)
      await page
        .getByText(new RegExp(`^${version + 1}$`))
        .first()
        .waitFor()
    }
    await page.getByLabel('Kept wins, at least').fill('0.9')
    await page.getByLabel('Most that OPD takes off a day').fill('50')
    await press(page, 'Show the difference')
    await dialog.getByText(/opd\.minWinRate: not set → 0\.9/).waitFor()
    await confirm(page, 'Apply', 'delta is changed')
    t.match((await stored()).opd, {
      enabled: true,
      share: 1,
      minWinRate: 0.9,
      caps: { perDay: 50 },
    })
  })

  t.test(
    'a canary has its fields, and its figures beside those of the usual endpoints',
    async (t) => {
      await show(page, base, 'supplier/delta', 'delta')
      await page.getByLabel('Canary, a URL a line').fill('http://127.0.0.1:2/next')
      await page.getByLabel('Share of auctions of the canary').fill('1')
      await page.getByLabel('Protocol').selectOption('auto')
      await press(page, 'Show the difference')
      await dialog.getByText(/canary: not set → .*127\.0\.0\.1:2/).waitFor()
      await confirm(page, 'Apply', 'delta is changed')
      t.match(await stored(), {
        canary: { endpoints: ['http://127.0.0.1:2/next'], share: 1 },
        protocol: 'auto',
      })
      t.equal(await bid(), 204)
      const figures = page.getByRole('table', { name: 'Canary' })
      const requests = figures.getByRole('row', { name: /^Requests/ })
      await requests.getByRole('cell', { name: /^[1-9]/ }).waitFor()
      t.same(await requests.getByRole('cell').allInnerTexts(), ['0', '1'])
      await page.getByText('100% of the auctions go to the canary').waitFor()
      await page.getByText('127.0.0.1:2/next canary').waitFor()
      await page.getByLabel('Canary, a URL a line').fill('')
      await page.getByLabel('Protocol').selectOption('')
      await press(page, 'Show the difference')
      await dialog.getByText(/canary: .* → not set/).waitFor()
      await confirm(page, 'Apply', 'delta is changed')
      const { canary, protocol } = await stored()
      t.same([canary, protocol], [undefined, undefined])
    },
  )

  t.test('keys that the form does not have are named, and stay', async (t) => {
    const { version } = await stored()
    const headers = {
      authorization: `Bearer ${await world.logIn('op', 'secret-1')}`,
      'content-type': 'application/merge-patch+json',
      'if-match': `"${version}"`,
    }
    const url = `${base}/api/svc/suppliers/delta/`
    const body = '{"openrtb":"protobuf"}'
    t.equal((await fetch(url, { method: 'PATCH', headers, body })).status, 200)
    await show(page, base, 'supplier/idle', 'Idle')
    await show(page, base, 'supplier/delta', 'delta')
    await page.getByText('this form leaves openrtb as they are').waitFor()
  })

  t.test('who changed what is shown, and two clicks revert it', async (t) => {
    await page.getByText(/op, .*opd\.share: 0\.1 → 1/).waitFor()
    await press(page, 'Revert to version 2')
    await dialog.getByText(/opd/).first().waitFor()
    await confirm(page, 'Revert', 'delta is as it was in version 2')
    t.same((await stored()).opd, { enabled: 'shadow' })
    await press(page, 'Undo')
    await page.getByRole('status').getByText('Undone.').waitFor()
    await until(async () => (await stored()).opd?.minWinRate === 0.9)
  })

  t.test('a change that a colleague made meanwhile is named and not overwritten', async (t) => {
    await show(page, base, 'supplier/acme', 'Acme')
    await page.getByText('The configuration file sets this supplier').waitFor()
    await show(page, base, 'supplier/delta', 'delta')
    await page.getByLabel('Timeout').fill('90ms')
    const { version } = await stored()
    const patched = await fetch(`${base}/api/svc/suppliers/delta/`, {
      method: 'PATCH',
      headers: {
        authorization: `Bearer ${await world.logIn('op', 'secret-1')}`,
        'content-type': 'application/merge-patch+json',
        'if-match': `"${version}"`,
      },
      body: '{"name":"Delta Two"}',
    })
    t.equal(patched.status, 200)
    await press(page, 'Show the difference')
    await page
      .getByText(/op changed it, .*name: .* → Delta Two/)
      .first()
      .waitFor()
    t.match(await stored(), { name: 'Delta Two' })
    t.notOk('timeout' in (await stored()))
  })

  t.test(
    'what was typed stays, beside what the colleague changed, and is applied to it',
    async (t) => {
      const field = (name: string) => page.locator(`form.fields [name=${name}]`)
      await until(async () => (await field('name').inputValue()) === 'Delta Two', {
        what: 'a field that nobody touched shows the change',
      })
      t.equal(await field('timeout').inputValue(), '90ms', 'what was typed')
      await field('canary').fill('http://127.0.0.1:2/next')
      await page.locator('select[name=enabled]').selectOption('true')
      await press(page, 'Show the difference')
      await page.getByText('canary.share: found nothing, allowed: number').waitFor()
      await field('canaryShare').fill('0.5')
      await press(page, 'Show the difference')
      await dialog.getByText(/timeout: not set → 90ms/).waitFor()
      t.notMatch(await dialog.innerText(), /name:/, 'the name is not changed back')
      const { version } = await stored()
      const colleague = await fetch(`${base}/api/svc/suppliers/delta/`, {
        method: 'PATCH',
        headers: {
          authorization: `Bearer ${await world.logIn('op', 'secret-1')}`,
          'content-type': 'application/merge-patch+json',
          'if-match': `"${version}"`,
        },
        body: '{"name":"Delta Three","timeout":"80ms","opd":{"enabled":"shadow","holdout":0.2}}',
      })
      t.equal(colleague.status, 200)
      await dialog.getByRole('button', { name: 'Apply', exact: true }).click()
      await dialog.getByText(/Not changed: op changed it, .*timeout: not set → 80ms/).waitFor()
      await press(page, 'Close')
      await page.getByText(/What you entered is kept/).waitFor()
      await until(async () => (await field('holdout').inputValue()) === '0.2')
      t.equal(await field('timeout').inputValue(), '90ms')
      t.equal(await field('canary').inputValue(), 'http://127.0.0.1:2/next')
      t.equal(await page.locator('select[name=enabled]').inputValue(), 'true')
      await press(page, 'Show the difference')
      await dialog.getByText(/timeout: 80ms → 90ms/).waitFor()
      await dialog.getByText(/opd\.enabled: shadow → true/).waitFor()
      await confirm(page, 'Apply', 'delta is changed')
      const merged = { name: 'Delta Three', timeout: '90ms', opd: { enabled: true, holdout: 0.2 } }
      t.match(await stored(), merged)
      await page.getByText(/What you entered is kept/).waitFor({ state: 'detached' })
    },
  )

  t.test('a supplier that is deleted leaves the list', async (t) => {
    t.equal(await remove('delta'), 204)
    await page.getByRole('heading', { name: 'No such supplier' }).waitFor()
  })

  t.test('what a canary does is beside what the usual endpoints do', async (t) => {
    const { endpoints } = (await (await api('/api/svc/suppliers/acme/')).json()) as {
      endpoints: string[]
    }
    const supplier = {
      ...{ id: 'birds', name: 'Birds', endpoints },
      canary: { endpoints: ['http://127.0.0.1:1/openrtb'], share: 0.5 },
    }
    t.equal((await api('/api/svc/suppliers/', 'POST', supplier)).status, 201)
    // the id of a request chooses between them
    const send = (id: string) =>
      bid('birds', `{"id":"${id}","imp":[{"id":"1","banner":{"w":300,"h":250}}]}`)
    await until(async () => (await send('first')) !== 404)
    for (let n = 0; n < 40; n++) await send(`request ${n}`)
    await show(page, base, 'supplier/birds', 'Birds')
    const rows = page.getByRole('table', { name: 'Canary' }).locator('tbody tr')
    /** The usual endpoints and the canary. */
    const figures = (name: string) => rows.filter({ hasText: name }).locator('td').allTextContents()
    await until(async () => (await figures('Requests')).every((count) => Number(count) > 0))
    t.same((await figures('Failed'))[1], '100%', 'nothing answers at the canary')
    t.same((await figures('Failed'))[0], '0%')
    const [usual, canary] = await figures('Bids a request')
    t.ok(Number(usual) > 0 && canary === '0', `${usual} bids a request, and ${canary}`)
    t.match(await figures('Mean price, CPM'), [/\d/, '–'])
    await page.getByText(/^\d+(\.\d)?% of the requests went to the canary/).waitFor()
    await page.getByRole('row').filter({ hasText: '127.0.0.1:1/' }).getByText('canary').waitFor()
    t.equal(await remove('birds'), 204)
  })

  t.test('without the role operator there is no form', async (t) => {
    await logIn(page, base, 'ann')
    await show(page, base, 'supplier/acme', 'Acme')
    t.equal(await page.getByRole('heading', { name: 'Configure' }).count(), 0)
    t.same(faults, [])
  })
}
