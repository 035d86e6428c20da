/** A part of console.test.ts: the switches of the console. Each asks back, and can be undone. */
import type { Test } from 'tap'
import { type ConsoleInBrowser, confirm, logIn, press, row, show } from '../../support/console.ts'

export async function switches(t: Test, { base, api, page, faults }: ConsoleInBrowser) {
  const held = async () =>
    ((await (await api('/api/svc/opd/')).json()) as { supplier: string; hold: boolean }[])
      .filter(({ hold }) => hold)
      .map(({ supplier }) => supplier)

  t.test('a hold asks back, is pending, and can be undone; no click is lost', async (t) => {
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
    await press(page, 'Cancel')
    t.same(faults, [])
  })

  t.test('seats, data centers and allotments: asked back, and undone', async (t) => {
    const qps = [{ location: 'us-east', value: 900 }]
    const body = {
      dsp_seats: [{ name: 's1', name_external: 'S1', is_active: true, qps }],
      datacenters: [{ location: 'us-east', client_qps: 500, is_active: true }],
    }
    t.equal((await api('/api/svc/ssp/idle/', 'POST', body)).status, 201)
    const supplier = async () => (await (await api('/api/svc/ssp/idle/')).json()) as typeof body
    await show(page, base, 'supplier/idle', 'Idle')
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
  })
}
