/** What OPD earned and what stops it: the four faults of the demo, each named on the first screen, with a mail one click away. */
import t from 'tap'
import type { Funnel } from '../../../admin/fleet/funnel-route.ts'
import type { LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import { runDemo } from '../../../service/demo/main.ts'
import { scenarios } from '../../../service/demo/scenarios.ts'
import { createDemoSupplier } from '../../../service/demo/supplier.ts'
import {
  browserAbsent,
  confirm,
  fillLogIn,
  launch,
  openPage,
  press,
  visit,
} from '../../support/console.ts'
import { newFolder, token } from '../../support/process.ts'
import { serveBidweir } from '../../support/served-node.ts'
import { startLimit, until } from '../../support/until.ts'
import { questions } from './questions.ts'

const faults = {
  'no-macro': { step: 'macro', text: /^no bid contains the macro$/ },
  'no-notices': { step: 'notices', text: /^no win notice has come for [\d,]+ decided bids$/ },
  'refused-notices': { step: 'attributed', text: /^\d+% of the win notices are refused$/ },
  'wrong-prices': { step: 'plausible', text: /^100% of the wins cleared below half of the price/ },
} as const

t.test('four suppliers for which OPD earns nothing', { skip: browserAbsent }, async (t) => {
  const supplier = await createDemoSupplier()
  const folder = newFolder()
  const opd =
    'opd: {enabled: true, holdout: .3, minWinRate: .8, minSpend: .75, explore: .05}, account: demo'
  const bidweir = await serveBidweir(
    `
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", impressions: {auth: context}}
store: {database: "sqlite:${folder}/b.db"}
drain: {grace: 0ms, timeout: 10s}
opd: {attributionWindow: 2s, decisionLog: {path: "${folder}/decisions.ndjson"}}
suppliers:
  - {id: demo, name: Demo, endpoints: ["${supplier.url}"], ${opd}}
  - {id: down, name: Down, endpoints: ["http://127.0.0.1:1/openrtb"], timeout: 50ms}
${Object.entries(scenarios)
  .map(
    ([id, { name, query = '' }]) =>
      `  - {id: ${id}, name: ${name}, endpoints: ["${supplier.url}${query}"], ${opd}}`,
  )
  .join('\n')}
`,
    folder,
  )
  const base = `http://127.0.0.1:${bidweir.adminPort}`
  const over = new AbortController()
  const traffic = ['demo', ...Object.keys(scenarios)].map((ssp) =>
    runDemo({
      ...{ proxyUrl: `http://127.0.0.1:${bidweir.proxyPort}`, adminUrl: base, supplier, ssp },
      ...{ signal: over.signal, rate: ssp === 'demo' ? 120 : 40, noticeDelay: 100 },
      changeNotice: scenarios[ssp]?.notice ?? ((query) => query),
    }),
  )
  t.teardown(async () => {
    over.abort()
    await Promise.all(traffic)
    await bidweir.stop()
    await supplier.close()
  })
  const access = await token(bidweir)
  const read = async (query = '') => {
    const headers = { authorization: `Bearer ${access}` }
    return (await (await fetch(`${base}/api/svc/funnel/${query}`, { headers })).json()) as Funnel
  }
  const isKnown = async () => {
    const headers = { authorization: `Bearer ${access}` }
    const live = await fetch(`${base}/api/svc/live/?ssp=demo`, { headers })
    const { integrations } = (await live.json()) as LiveSnapshot
    const [mode] = integrations[0]!.modes
    return mode?.kept?.known === true && mode.keptSpend?.known === true
  }
  await until(
    async () => {
      if (!(await isKnown())) return false
      const { earned, suppliers } = await read('?only=faults')
      return earned !== null && suppliers.length === Object.keys(faults).length
    },
    { what: 'four faults, and what the others earned', limit: startLimit },
  )
  over.abort()
  await Promise.all(traffic)
  const fail = async () => {
    const headers = { 'content-type': 'application/json' }
    const body = '{"id":"r","imp":[{"id":"1"}]}'
    for (let n = 0; n < 12; n++)
      await fetch(`http://127.0.0.1:${bidweir.proxyPort}/bid/down`, {
        method: 'POST',
        headers,
        body,
      })
  }
  const funnel = await read()
  for (const [ssp, { step, text }] of Object.entries(faults)) {
    const found = funnel.suppliers.find((supplier) => supplier.ssp === ssp)!
    t.match(found.faults, [{ step, text, fix: String, mail: String }], ssp)
    t.ok(found.faults[0]!.perDay! > 0, `${ssp}: what is at stake is known`)
  }
  const healthy = (await read('?ssp=demo')).suppliers
  t.match(healthy, [{ ssp: 'demo', faults: [] }])
  const counts = healthy[0]!.steps.map(({ count }) => count)
  t.same(counts.length, 8)
  t.ok(counts.every((count) => count > 0))
  t.equal(funnel.perDay! > 0, true)
  t.same(funnel.unchecked.toSorted(), ['no-notices', 'refused-notices', 'wrong-prices'])

  const browser = await launch()
  t.teardown(() => browser.close())
  const { page, faults: errors } = await openPage(browser)
  await visit(page, base)
  const first = page.getByRole('region', { name: 'What OPD earned today' })
  await page.route(
    '**/api/svc/reports/margin**',
    async (route) => {
      await first.waitFor()
      await route.continue()
    },
    { times: 1 },
  )
  await fillLogIn(page, 'admin', bidweir.password!)
  await first
    .getByText(/^Today OPD (earned|lost) USD.*by the holdout.*wins.*a day more is possible/)
    .waitFor()
  for (const [ssp, { text }] of Object.entries(faults)) {
    const { name } = scenarios[ssp]!
    const line = first.getByRole('listitem').filter({ hasText: name })
    t.match((await line.textContent())?.split(': ')[1], new RegExp(text.source.replace('$', '')))
    await line.getByRole('link').click()
    await page.getByText('stops here').waitFor()
    await page.getByText('Mail to the supplier').click()
    const mail = funnel.suppliers.find((supplier) => supplier.ssp === ssp)!.faults[0]!.mail
    await page.getByText(mail, { exact: true }).waitFor()
    await page.goto(`${base}/#/suppliers`)
    await first.waitFor()
  }
  await press(page, 'Hold Aster Ads')
  await confirm(page, 'Hold', 'Aster Ads is on hold.')
  const several = page.locator('tbody tr').filter({ hasText: 'Aster Ads' })
  // the load of the machine is a reason of its own
  await several.getByText(/^\d+ more$/).click()
  await several.getByText('an operator holds the prices at factor 1').waitFor()
  await press(page, 'Undo')
  await page.getByText('Undone.').waitFor()
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
  await first.getByRole('link', { name: 'Aster Ads' }).click()
  await page.getByText('Mail to the supplier').click()
  await press(page, 'Copy')
  await page.getByText('Copied.').waitFor()
  t.match(await page.evaluate('navigator.clipboard.readText()'), 'svc_opd=${SVC_OPD_CONTEXT}')
  t.test('the questions of a person', (t) =>
    questions(t, {
      ...{ page, base, fail, database: `${folder}/b.db`, secret: bidweir.password! },
      proxy: `http://127.0.0.1:${bidweir.proxyPort}`,
    }),
  )
  t.test('no script failed', async (t) => t.same(errors, []))
})
