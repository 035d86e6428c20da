/** A part of test/admin/auth/keycloak.test.ts: the console with an external issuer, a real Keycloak: authorization code with PKCE, refresh, roles, log-out. */
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { launch, openPage } from '../../support/console.ts'
import { newFolder } from '../../support/process.ts'
import { serveBidweir } from '../../support/served-node.ts'
import { until } from '../../support/until.ts'

const yaml = (folder: string, issuer: string) => `
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", auth: {issuer: "${issuer}", audience: bidweir, clientId: public-client}}
store: {database: "sqlite:${folder}/b.db"}
drain: {grace: 0ms, timeout: 10s}
suppliers:
  - {id: acme, name: Acme, account: acme-media, endpoints: ["http://127.0.0.1:9/"], opd: {enabled: shadow}}
  - {id: other, name: Other, account: others, endpoints: ["http://127.0.0.1:9/"]}
`

async function logIn(page: Page, name: string, password: string): Promise<void> {
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.locator('#username').fill(name)
  await page.locator('#password').fill(password)
  await page.locator('#kc-login').click()
}

/** `auth`: the address of the Keycloak. */
export async function consoleLogIn(t: Test, auth: string) {
  const issuer = `${auth}/auth/realms/main`
  const folder = newFolder()
  const bidweir = await serveBidweir(yaml(folder, issuer), folder)
  const browser = await launch()
  t.teardown(async () => {
    await browser.close()
    await bidweir.stop()
  })
  const base = `http://127.0.0.1:${bidweir.adminPort}`
  const { page, faults } = await openPage(browser)
  const asked: URL[] = []
  page.on('request', (request) => {
    if (request.url().includes('/protocol/openid-connect/auth?')) asked.push(new URL(request.url()))
  })

  await page.goto(`${base}/#/supplier/acme`)
  await page.getByText(`You log in at ${new URL(auth).host}.`).waitFor()
  await logIn(page, 'ann', 'secret-1')
  await page.getByRole('heading', { level: 1, name: 'Acme' }).waitFor()
  t.equal(asked[0]!.searchParams.get('response_type'), 'code')
  t.equal(asked[0]!.searchParams.get('code_challenge_method'), 'S256')
  t.equal(page.url(), `${base}/#/supplier/acme`, 'the screen that was asked for; the code is gone')
  t.equal(await page.getByRole('button', { name: /^Hold/ }).count(), 0, 'ann is no operator')
  await page.goto(`${base}/#/suppliers`)
  await page.locator('tbody tr').first().waitFor()
  t.equal(await page.locator('tbody tr').count(), 1, 'the suppliers of the account')
  await page.goto(`${base}/#/users`)
  await page.getByText(`Users are those of the issuer ${issuer}.`).waitFor()

  const session = async () =>
    (await page.evaluate("JSON.parse(sessionStorage.getItem('bidweir'))")) as { refresh: string }
  const { refresh } = await session()
  // an access token that the service refuses, as after its expiry
  const expired = JSON.stringify({ access: 'expired', refresh })
  await page.evaluate(`sessionStorage.setItem('bidweir', '${expired}')`)
  await page.goto(`${base}/#/suppliers`)
  await page.reload()
  await page.locator('tbody tr').first().waitFor()
  const renewed = await session()
  t.not(renewed.refresh, refresh, 'refreshed by itself')

  const revoked = page.waitForResponse((response) => response.url().endsWith('/revoke'))
  await page.getByRole('button', { name: 'Log out' }).click()
  t.equal((await revoked).status(), 200)
  await page.getByRole('button', { name: 'Log in' }).waitFor()
  const again = await fetch(`${issuer}/protocol/openid-connect/token`, {
    method: 'POST',
    body: new URLSearchParams({
      client_id: 'public-client',
      grant_type: 'refresh_token',
      refresh_token: renewed.refresh,
    }),
  })
  t.equal(again.status, 400, 'the session has ended at the issuer')

  const other = await openPage(browser)
  await other.page.goto(`${base}/?code=forged&state=forged#/suppliers`)
  await other.page.getByRole('button', { name: 'Log in' }).waitFor()
  t.equal(
    await other.page.evaluate('sessionStorage.length'),
    0,
    'a code of another log-in is ignored',
  )
  await logIn(other.page, 'eve', 'secret-3')
  await other.page.locator('tbody tr').first().waitFor()
  await other.page.getByText('viewer, account acme-media').waitFor()
  await other.page.goto(`${base}/#/supplier/acme`)
  await other.page.getByRole('heading', { name: 'Seats and data centers' }).waitFor()
  await until(async () => (await other.page.getByText('Loading…').count()) === 0)
  t.equal(await other.page.getByRole('button', { name: /^(Hold|Switch|Change)/ }).count(), 0)

  const nobody = await openPage(browser)
  await nobody.page.goto(base)
  await logIn(nobody.page, 'bob', 'secret-2')
  await nobody.page.getByText('This user lacks a role: at least viewer is required').waitFor()
  t.same([faults, other.faults], [[], []])
}
