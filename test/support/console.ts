/** A running service with bid traffic and wins, a supplier that is down and one without traffic; and a browser on its console. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type Locator, type Page } from 'playwright-core'
import type { Test } from 'tap'
import type { Kept, LiveSnapshot } from '../../admin/fleet/live-schema.ts'
import { runDemo } from '../../service/demo/main.ts'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { newFolder, token } from './process.ts'
import { serveBidweir } from './served-node.ts'
import { startLimit, until } from './until.ts'

const browserPath = '/usr/bin/chromium'
export const browserAbsent = existsSync(browserPath) ? false : 'chromium not found'

export const password = 'secret-1'

const yaml = (folder: string, endpoint: string) => `
location: us-east
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", impressions: {auth: context}}
store: {database: "sqlite:${folder}/b.db"}
drain: {grace: 0ms, timeout: 10s}
opd: {attributionWindow: 5s, decisionLog: {path: "${folder}/decisions.ndjson"}}
suppliers:
  - {id: acme, name: Acme, account: acme-media, endpoints: ["${endpoint}"], timeout: 250ms,
     opd: {enabled: true, holdout: .5, minWinRate: .8, minSpend: .75, explore: .05}}
  - {id: down, name: Down <b>, account: acme-media, endpoints: ["http://127.0.0.1:1/openrtb?token=secret"], timeout: 50ms, opd: {enabled: shadow}}
  - {id: idle, name: Idle, account: others, endpoints: ["${endpoint}"]}
`

interface ConsoleWorld {
  /** The admin listener. */
  base: string
  proxy: string
  /** Of the configuration and the state. */
  folder: string
  /** A call as `admin`. */
  api(path: string, method?: string, body?: unknown): Promise<Response>
  /** Sends bid requests to a supplier one after the other, and returns the last response. */
  bids(ssp: string, count: number): Promise<Response>
  /** Requests to the supplier that is down; it is shown as a fault for the minutes of the live figures. */
  fail(): Promise<Response>
  /** Adds suppliers, lines of YAML, to the configuration of the running service. */
  addSuppliers(lines: string): void
  /** Replaces a text of the configuration of the running service. */
  configure(text: string, by: string): void
  /** An access token, if the user can log in with this password. */
  logIn(name: string, password: string): Promise<string | undefined>
}

/** Resolves when all figures are known; the traffic has ended then. */
async function consoleWorld(t: Test): Promise<ConsoleWorld> {
  const supplier = await createDemoSupplier()
  const folder = newFolder()
  const bidweir = await serveBidweir(yaml(folder, supplier.url), folder)
  const base = `http://127.0.0.1:${bidweir.adminPort}`
  const proxy = `http://127.0.0.1:${bidweir.proxyPort}`
  const stop = new AbortController()
  const traffic = runDemo({
    ...{ proxyUrl: proxy, adminUrl: base, supplier, rate: 200, signal: stop.signal },
    ...{ ssp: 'acme', every: 60_000, noticeDelay: 100, out: { write: () => {} } },
    figures: async () => null,
  })
  t.teardown(async () => {
    stop.abort()
    await traffic
    await bidweir.stop()
    await supplier.close()
  })
  let access = await token(bidweir)
  const api = async (path: string, method = 'GET', body?: unknown) => {
    const send = () =>
      fetch(`${base}${path}`, {
        method,
        headers: { authorization: `Bearer ${access}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
    const response = await send()
    if (response.status !== 401) return response
    // the tests of a busy machine take longer than a token is valid
    access = await token(bidweir)
    return send()
  }
  const bids = async (ssp: string, count: number) => {
    const request = { id: 'r', imp: [{ id: '1', banner: { w: 300, h: 250 } }], tmax: 200 }
    let last: Response | null = null
    for (let index = 0; index < count; index++) {
      await last?.arrayBuffer()
      last = await fetch(`${proxy}/bid/${ssp}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(request),
      })
    }
    return last!
  }
  for (const [name, role, account] of [
    ['eve', 'viewer', 'acme-media'],
    ['ann', 'api', 'acme-media'],
    ['op', 'operator', '*'],
  ]) {
    const user = { name, password, roles: [role], account }
    const added = await api('/api/svc/users/', 'POST', user)
    if (!added.ok) throw new Error(await added.text())
  }
  const fail = () => bids('down', 12)
  await fail()
  // The wins are enough for each figure: the console shows it up to a width of 1, and wins on their way still change it. Among few
  // bids those that are not stored yet, while their wins are, would make it narrower than it is.
  const fewestBids = 1000
  const isNarrow = (kept: Kept | null) => kept !== null && kept.upper - kept.lower <= 0.7
  const known = async () => {
    const { integrations } = (await (await api('/api/svc/live/')).json()) as LiveSnapshot
    const [mode] = integrations.find(({ ssp }) => ssp === 'acme')!.modes
    if (mode === undefined || mode.bids < fewestBids) return false
    return isNarrow(mode.kept) && isNarrow(mode.keptSpend)
  }
  await until(known, { what: 'figures that are known', limit: startLimit })
  stop.abort()
  await traffic
  return {
    ...{ base, proxy, folder, api, bids, fail },
    addSuppliers(lines) {
      const file = join(folder, 'bidweir.yaml')
      writeFileSync(file, readFileSync(file, 'utf8') + lines)
    },
    configure(text, by) {
      const file = join(folder, 'bidweir.yaml')
      writeFileSync(file, readFileSync(file, 'utf8').replace(text, by))
    },
    logIn: (name, secret) => token(bidweir, name, secret),
  }
}

export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: browserPath,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'],
  })

export type ConsoleInBrowser = Awaited<ReturnType<typeof consoleInBrowser>>

/** The same with a browser and a page in it; all end with the test. A new page takes 0.5 s of CPU: tests share this one. */
export async function consoleInBrowser(t: Test) {
  const world = await consoleWorld(t)
  const browser = await launch()
  t.teardown(() => browser.close())
  return { ...world, browser, ...(await openPage(browser)) }
}

/** The page reads its figures, seats and reports every second: tests wait for that. */
const pollSooner = `
  const { setTimeout: real } = window
  const every = [3000, 9000, 20000]
  window.setTimeout = (run, ms, ...more) => real(run, every.includes(ms) ? 1000 : ms, ...more)`

/** A page that collects its errors and the violations of its policy. */
export async function openPage(browser: Browser, options: object = {}) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 }, ...options })
  await page.addInitScript(pollSooner)
  page.setDefaultTimeout(60_000)
  const faults: string[] = []
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    const text = message.text()
    // a refused call is logged too
    if (message.type() === 'error' && !text.startsWith('Failed to load resource')) faults.push(text)
  })
  return { page, faults }
}

/** Opens a screen as a new visitor: whoever used the page before leaves nothing on it. */
export async function visit(page: Page, base: string, screen = ''): Promise<void> {
  if (page.url().startsWith(base))
    await page.evaluate('sessionStorage.clear(); localStorage.clear()')
  await page.unrouteAll()
  await page.goto('about:blank')
  await page.goto(`${base}/#/${screen}`)
}

/** Logs in as a new visitor: a page that is loaded again takes 0.5 s of CPU. */
export async function logIn(
  page: Page,
  base: string,
  name: string,
  screen = '',
  secret = password,
): Promise<void> {
  await visit(page, base, screen)
  await fillLogIn(page, name, secret)
}

export async function fillLogIn(page: Page, name: string, secret = password): Promise<void> {
  await page.getByLabel('User').fill(name)
  await page.getByLabel('Password').fill(secret)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('navigation', { name: 'Screens' }).waitFor()
}

/** Opens a screen, and waits until its data are shown. */
export async function show(page: Page, base: string, screen: string, heading: string) {
  await page.goto(`${base}/#/${screen}`)
  await page.getByRole('heading', { level: 1, name: heading }).waitFor()
  await until(async () => (await page.getByText('Loading…').count()) === 0)
}

const source = new URL('../../admin/dashboard/page/main.js', import.meta.url)
/** The names of all screens, from the source of the console: a list of screens in a test is compared with it. */
export const screenNames = (): string[] =>
  [...readFileSync(source, 'utf8').matchAll(/^ {2}'?([\w-]+)'?: \{ title: /gm)].map(
    ([, name]) => name!,
  )

/** The name of a screen in an address such as `supplier/acme?days=7`. */
export const nameOfScreen = (address: string): string => /^[\w-]+/.exec(address)![0]

export const row = (place: Page | Locator, name: string) =>
  place.locator('tbody tr').filter({ hasText: name })
export const press = (page: Page, name: string) =>
  page.getByRole('button', { name, exact: true }).first().click()

/** Confirms what a button asks, and waits for the message that follows. */
export async function confirm(page: Page, verb: string, message: string) {
  await page.getByRole('dialog').getByRole('button', { name: verb, exact: true }).click()
  const said = page.getByRole('status').getByText(message).waitFor()
  await said.catch(async (error: Error) => {
    const shown = await page.locator('dialog, [role=status]').allInnerTexts()
    throw new Error(`${error.message}\nshown: ${shown.join('; ')}`)
  })
  // A dialog that closes takes the focus from what is filled meanwhile.
  await page.getByRole('dialog').waitFor({ state: 'hidden' })
}
