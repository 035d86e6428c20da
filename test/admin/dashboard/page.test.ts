import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'
import t, { type Test } from 'tap'
import { bearer } from '../../../admin/auth/bearer.ts'
import { createAuth } from '../../../admin/auth/index.ts'
import type { Role } from '../../../admin/auth/roles.ts'
import { addUser } from '../../../admin/auth/users.ts'
import { dashboard } from '../../../admin/dashboard/route.ts'
import { createAdmin } from '../../../admin/http/server.ts'
import { ImpressionCounters } from '../../../admin/impressions/counters.ts'
import { management } from '../../../admin/management/route.ts'
import { openStore } from '../../../admin/store/index.ts'
import { EngineStats } from '../../../opd/engine/stats.ts'
import { snapshotCatalog } from '../../../opd/state/snapshot-catalog.ts'
import { newFolder } from '../../support/process.ts'

const browserPath = '/usr/bin/chromium'
const log = { info() {}, warn() {}, error() {} }

async function service(t: Test) {
  const now = Date.now
  const store = await openStore(`sqlite:${t.testdir()}/a.db`, { now, log })
  const config = { embedded: { realm: 'main' } }
  const auth = await createAuth(config, { store, baseUrl: () => 'http://127.0.0.1', log, now })
  const authenticate = (role: Role) => bearer(auth.verifier, { role })
  const held = new Set<string>()
  const suppliers = () => [
    { id: 'acme', name: 'Acme <b>', name_external: 'Acme', account: 'a' },
    { id: 'other', name: 'Other', name_external: 'Other', account: 'b' },
  ]
  const stats = new EngineStats()
  const counters = new ImpressionCounters()
  const revenue = stats.of('acme').modes.revenue
  revenue.configured = true
  const traffic = () => {
    for (let at = 0; at < 400; at++) {
      revenue.priced(at % 10 === 0 ? 'holdout' : 'treated', 1, 0.9)
      if (at % 3 !== 0) continue
      revenue.won(at % 10 === 0 ? 'holdout' : 'treated')
      revenue.paid(at % 10 === 0 ? 'holdout' : 'treated', 0.8, 0.1 + (at % 7) / 50)
      if (at % 9 === 0) revenue.countUnmodified('fixed_price')
      if (at % 3 === 0) counters.countNotice('acme', 'revenue', 'attributed', 'context', 'win')
    }
    counters.countNotice('acme', 'revenue', 'duplicate', 'context', 'win')
    counters.countNotice('', '', 'rejected', 'none', 'none')
  }
  traffic()
  const live = { suppliers, stats, counters, holds: () => held, location: 'us-east', now }
  const changed = async () => {
    held.clear()
    for (const { supplier, hold } of await store.db.selectFrom('holds').selectAll().execute())
      if (hold === 1) held.add(supplier)
  }
  const admin = createAdmin({
    listen: '127.0.0.1:0',
    log,
    plugins: [
      auth.plugin!,
      management({
        store,
        suppliers,
        authenticate,
        changed: () => void changed(),
        snapshots: snapshotCatalog(newFolder()),
        followed: async () => {},
        now,
      }),
      dashboard({
        ...live,
        authenticate,
        realm: 'main',
        currency: () => 'EUR',
        opd: () => ({ state: 'shadow', mode: 'revenue' }),
        endpoints: () => [{ url: 'https://bid-eu.acme.example', state: 'failing', failures: 12 }],
        allotment: () => ({ qps: 500, refused: 12 }),
      }),
    ],
  })
  const { port } = await admin.listen()
  t.teardown(async () => {
    await admin.close()
    auth.close()
    await store.close()
  })
  await addUser(store, {
    name: 'op',
    password: 'secret-1',
    roles: ['api', 'operator'],
    account: '*',
  })
  await addUser(store, { name: 'ann', password: 'secret-1', roles: ['api'], account: 'a' })
  await addUser(store, { name: 'eve', password: 'secret-1', roles: ['viewer'], account: 'a' })
  await addUser(store, { name: 'bob', password: 'secret-1', account: 'a' })
  return { base: `http://127.0.0.1:${port}`, traffic, held }
}

async function tokenOf(base: string, username: string): Promise<string> {
  const fields = {
    client_id: 'public-client',
    grant_type: 'password',
    username,
    password: 'secret-1',
  }
  const body = new URLSearchParams(fields)
  const url = `${base}/auth/realms/main/protocol/openid-connect/token`
  const answer = await fetch(url, { method: 'POST', body })
  return ((await answer.json()) as { access_token: string }).access_token
}

t.test('the page is ours alone, the figures want a token and show one account', async (t) => {
  const { base } = await service(t)
  const page = await fetch(base)
  t.equal(page.status, 200)
  t.match(page.headers.get('content-security-policy'), /default-src 'none'/)
  t.notMatch(await page.text(), /https?:\/\//, 'no other host')
  t.equal((await fetch(`${base}/api/svc/live/`)).status, 401)
  const headers = { authorization: `Bearer ${await tokenOf(base, 'ann')}` }
  const live = (await (await fetch(`${base}/api/svc/live/`, { headers })).json()) as object
  const opd = { state: 'shadow', mode: 'revenue' }
  t.match(live, { operator: false, location: 'us-east', currency: 'EUR' })
  t.same((live as { unplaced: object }).unplaced, {}, 'refused notices are shown to who sees all')
  t.match(live, { integrations: [{ ssp: 'acme', opd, modes: [{ mode: 'revenue' }] }] })
  t.equal((live as { integrations: [] }).integrations.length, 1, "another account's is not there")
})

const skip = existsSync(browserPath) ? false : 'chromium not found'
t.test('an operator logs in, sees figures move, and holds', { skip }, async (t) => {
  const { base, traffic, held } = await service(t)
  const seats = {
    dsp_seats: [{ name: 's1', name_external: 'S1', is_active: true, qps: [] }],
    datacenters: [{ location: 'us-east', client_qps: null, is_active: true }],
  }
  const made = await fetch(`${base}/api/svc/ssp/acme/`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${await tokenOf(base, 'op')}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(seats),
  })
  t.equal(made.status, 201, await made.text())
  const browser = await chromium.launch({
    executablePath: browserPath,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  })
  t.teardown(() => browser.close())
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } })
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  await page.goto(base)
  await page.getByLabel('User').fill('op')
  await page.getByLabel('Password').fill('wrong')
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByText('user or password is wrong').waitFor()
  await page.getByLabel('Password').fill('secret-1')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Acme <b>' }).waitFor()
  await page.getByText('mode revenue, in shadow').first().waitFor()
  traffic()
  await page.getByRole('heading', { name: 'Notices without an integration' }).waitFor()
  await page.locator('svg path[d*="L"]').first().waitFor({ state: 'attached' })
  const shot = process.env['DASHBOARD_SHOT']
  if (shot !== undefined) await page.screenshot({ path: shot, fullPage: true })
  await page.setViewportSize({ width: 390, height: 844 })
  const tall = await page.locator('h1').evaluate((h1) => h1.clientHeight)
  t.ok(tall < 40, `the name stands on one line of a telephone: ${tall} px`)
  await page.getByRole('button', { name: 'Hold acme' }).click()
  await page.getByRole('button', { name: 'Release acme' }).waitFor()
  t.ok(held.has('acme'))
  for (const name of ['Seat s1', 'Data center us-east']) {
    await page.getByRole('button', { name: `${name}: active` }).click()
    await page.getByRole('button', { name: `${name}: inactive` }).waitFor()
  }
  await page.reload()
  await page.getByRole('heading', { name: 'Acme <b>' }).waitFor()
  const session = () => page.evaluate("JSON.parse(sessionStorage.getItem('bidweir'))")
  const { refresh } = (await session()) as { refresh: string }
  const revoked = page.waitForResponse((response) => response.url().endsWith('/revoke'))
  await page.getByRole('button', { name: 'Log out' }).click()
  t.equal((await revoked).status(), 200)
  const again = { client_id: 'public-client', grant_type: 'refresh_token', refresh_token: refresh }
  const url = `${base}/auth/realms/main/protocol/openid-connect/token`
  const refused = await fetch(url, { method: 'POST', body: new URLSearchParams(again) })
  t.equal(refused.status, 400, 'the session has ended at the service')
  await page.getByRole('button', { name: 'Log in' }).waitFor()
  t.equal(await page.evaluate('sessionStorage.length'), 0)
  t.equal(await page.textContent('#state'), '', 'nothing is left of the figures')
  await page.evaluate(`sessionStorage.setItem('bidweir', '{"access":"old","refresh":"old"}')`)
  await page.reload()
  await page.getByText('Your session has ended: log in again').waitFor()
  for (const [name, shown] of [
    ['bob', 'This user lacks a role: at least viewer is required'],
    ['eve', 'Acme <b>'],
  ] as const) {
    await page.getByLabel('User').fill(name)
    await page.getByLabel('Password').fill('secret-1')
    await page.getByRole('button', { name: 'Log in' }).click()
    await page.getByText(shown).first().waitFor()
  }
  t.strictSame(faults, [], 'no script failed')
})
