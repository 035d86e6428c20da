/** A part of console.test.ts: an operator takes a supplier live step by step, and back. */
import type { Test } from 'tap'
import { type ConsoleInBrowser, confirm, logIn, press, show } from '../../support/console.ts'

export async function goingLive(t: Test, { base, api, page, faults }: ConsoleInBrowser) {
  const block = {
    ...{ id: 'gamma', name: 'Gamma', account: 'acme-media' },
    endpoints: ['http://127.0.0.1:1/openrtb'],
  }
  t.equal((await api('/api/svc/suppliers/', 'POST', block)).status, 201)
  const stored = async () =>
    (await (await api('/api/svc/suppliers/gamma/')).json()) as {
      opd?: { enabled: boolean | string; share?: number }
      timeout?: string
    }
  await logIn(page, base, 'op')

  t.test('each step is set by its button, and the way back is one button', async (t) => {
    await show(page, base, 'go-live/gamma', 'Go live')
    await page.getByText('0 requests in the last minutes').waitFor()
    const check = (text: string) => page.getByRole('listitem').filter({ hasText: text }).last()
    for (const text of [
      'Few requests sent to the supplier fail',
      'Few requests are refused',
      'Most bids contain the macro',
      'Win notices come',
      'Kept wins: too few wins',
    ])
      t.match(await check(text).innerText(), /Not known$/, 'it says what is checked')
    for (const [name, opd] of [
      ['shadow', { enabled: 'shadow' }],
      ['a share of 5 %', { enabled: true, share: 0.05 }],
      ['a share of 25 %', { enabled: true, share: 0.25 }],
      ['on', { enabled: true, share: 1 }],
    ] as const) {
      await press(page, `Next: ${name}`)
      await page.getByRole('dialog').getByText('Not yet green: 0 requests').waitFor()
      await confirm(page, 'Apply', `Gamma: ${name}.`)
      t.match((await stored()).opd, opd)
      await page
        .getByRole('button', { name: `Next: ${name}`, exact: true })
        .waitFor({ state: 'detached' })
    }
    await press(page, 'Undo')
    await page.getByText('Undone.').waitFor()
    t.match((await stored()).opd, { share: 0.25 })
    await press(page, 'Back to shadow')
    await confirm(page, 'Go back', 'Gamma: shadow.')
    t.match((await stored()).opd, { enabled: 'shadow' })
    const trail = await api('/api/svc/audit/?ssp=gamma&limit=1')
    t.match(await trail.json(), [{ who: 'op' }])
  })

  t.test('a change that a colleague made meanwhile is not overwritten', async (t) => {
    await show(page, base, 'go-live/gamma', 'Go live')
    await press(page, 'Next: a share of 5 %')
    await page.getByRole('dialog').waitFor()
    const colleague = async (body: object) => {
      const read = await api('/api/svc/suppliers/gamma/')
      const changed = await fetch(`${base}/api/svc/suppliers/gamma/`, {
        method: 'PATCH',
        headers: {
          authorization: `Bearer ${await page.evaluate<string>("JSON.parse(sessionStorage.getItem('bidweir')).access")}`,
          'content-type': 'application/json',
          'if-match': read.headers.get('etag')!,
        },
        body: JSON.stringify(body),
      })
      t.equal(changed.status, 200)
    }
    await colleague({ opd: { enabled: false } })
    await page.getByRole('dialog').getByRole('button', { name: 'Apply', exact: true }).click()
    await page.getByText(/Not changed: op changed it, /).waitFor()
    await press(page, 'Close')
    t.match((await stored()).opd, { enabled: false })
    await show(page, base, 'go-live/gamma', 'Go live')
    await press(page, 'Next: shadow')
    await confirm(page, 'Apply', 'Gamma: shadow.')
    await colleague({ timeout: '90ms' })
    await press(page, 'Undo')
    await page.getByText(/^Not undone: op changed it, .*timeout.*90ms/).waitFor()
    t.match(await stored(), { opd: { enabled: 'shadow' }, timeout: '90ms' }, 'nothing is lost')
  })

  t.test('of a supplier of the file the screen has the lines to change', async (t) => {
    await show(page, base, 'go-live/acme', 'Go live')
    await page.getByText('- id: acme').waitFor()
    const step = page.locator('[aria-current=step]')
    t.match(await step.textContent(), /6\. On now.*Kept wins: .*floor 80%/s)
    await logIn(page, base, 'eve', 'go-live/acme')
    await page.getByText('An operator of the account * takes the next step.').waitFor()
    t.same(faults, [])
  })
}
