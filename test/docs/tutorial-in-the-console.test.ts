/** Tutorial 10 in a browser: the steps of its reader, with the words and the JSON of the page. */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { authority } from '../support/authority.ts'
import {
  browserAbsent,
  confirm,
  launch,
  logIn,
  openPage,
  press,
  row,
  show,
} from '../support/console.ts'
import { newFolder, token } from '../support/process.ts'
import { serveBidweir } from '../support/served-node.ts'
import { until } from '../support/until.ts'

const pageOf = (name: string) =>
  readFileSync(new URL(`../../docs/tutorials/${name}.md`, import.meta.url), 'utf8')
const curl = pageOf('09-mutual-tls-with-curl')
const tutorial = pageOf('10-mutual-tls-in-the-console')

/** A word that the page prints in bold. */
function bold(word: string): string {
  if (!tutorial.replace(/\s+/g, ' ').includes(`**${word}**`)) throw new Error(`no **${word}**`)
  return word
}

/** The partner of tutorial 9, on a port of its own that it keeps. */
async function startPartner(t: Test, folder: string) {
  const [certificates] = /^```sh\n(mkdir -p tls[\s\S]*?)^```$/m.exec(curl)!.slice(1)
  execFileSync('bash', ['-ec', certificates!], { cwd: folder, stdio: 'pipe' })
  const [source] = /<<'END'\n(import \{ readFileSync \}[\s\S]*?)\nEND\n/.exec(curl)!.slice(1)
  const listen =
    ".listen(Number(process.argv[2]), '127.0.0.1', function () { process.send(this.address().port) })"
  writeFileSync(
    join(folder, 'partner.mjs'),
    source!.replace(/\.listen\(9000, '127\.0\.0\.1'\)/, listen),
  )
  let child: ChildProcess | null = null
  const partner = {
    port: 0,
    async start() {
      child = fork('partner.mjs', [String(partner.port)], { cwd: folder, execArgv: [] })
      const [port] = await once(child, 'message')
      partner.port = port as number
    },
    async stop() {
      const exited = once(child!, 'exit')
      child!.kill()
      await exited
    },
  }
  await partner.start()
  t.teardown(() => partner.stop())
  return partner
}

const skip = browserAbsent || (authority('Tutorial') === null && 'openssl not found')

t.test('the steps of tutorial 10', { skip }, async (t) => {
  const folder = newFolder()
  const partner = await startPartner(t, folder)
  const listen = '{listen: 127.0.0.1:0}'
  const yaml = `location: local\nproxy: ${listen}\nadmin: ${listen}\ndrain: {grace: 0s}\n`
  const bidweir = await serveBidweir(yaml, folder)
  t.teardown(() => bidweir.stop())
  const base = `http://127.0.0.1:${bidweir.adminPort}`
  const browser = await launch()
  t.teardown(() => browser.close())
  const { page, faults } = await openPage(browser)
  const dialog = page.getByRole('dialog')
  const body = /-d '(\{"id".*\})'/.exec(tutorial)![1]!
  const bid = async () => {
    const headers = { 'content-type': 'application/json' }
    const url = `http://127.0.0.1:${bidweir.proxyPort}/bid/partner`
    const response = await fetch(url, { method: 'POST', headers, body })
    await response.body?.cancel()
    return response.status
  }
  const stored = async () => {
    const headers = { authorization: `Bearer ${await token(bidweir)}` }
    // biome-ignore lint/suspicious/noExplicitAny: compared with what is expected
    return (await (await fetch(`${base}/api/svc/suppliers/partner/`, { headers })).json()) as any
  }
  const field = (label: string) => page.getByLabel(bold(label)).first()

  await t.test('2. add the supplier', async (t) => {
    await logIn(page, base, 'admin', '', bidweir.password!)
    await show(page, base, 'configuration', bold('Configuration'))
    await page.getByText(bold('Add a supplier')).click()
    await field('Id, part of the path /bid/…').fill('partner')
    await field('Account whose users see it').fill('partner-media')
    await field('Endpoints, one a line').fill(`https://127.0.0.1:${partner.port}/openrtb`)
    await field('Timeout').fill('2s')
    const [json] = /```json\n([\s\S]*?)```/.exec(tutorial)!.slice(1)
    const keys = field('TLS, headers and checks of the endpoints, JSON')
    await keys.fill(json!.replace('tls/ca.pem', 'tls/absent.pem'))
    await press(page, bold('Show the difference'))
    await page.getByText(/absent\.pem.*cannot be read/).waitFor()
    t.equal(await bid(), 404, 'a fault changes nothing')
    await keys.fill(json!)
    await press(page, 'Show the difference')
    await dialog.getByText(/added: .*x-api-key/).waitFor()
    await confirm(page, bold('Add supplier'), 'Supplier partner is added')
    t.match(await stored(), { version: 1, tls: { key: { file: 'tls/client.key' } } })
  })

  await t.test('3. traffic', async (t) => {
    t.equal(await bid(), 200)
    await show(page, base, 'supplier/partner', 'partner')
    const endpoint = row(page, `https://127.0.0.1:${partner.port}/openrtb`)
    await endpoint.getByText(/\bup\b/).waitFor()
    await partner.stop()
    await endpoint.getByText(/unhealthy.*ECONNREFUSED/s).waitFor()
    await partner.start()
    await endpoint.getByText(/\bup\b/).waitFor()
  })

  await t.test('4. another timeout', async (t) => {
    await page.getByRole('heading', { name: bold('Configure') }).waitFor()
    await field('Timeout').fill('1s')
    await press(page, 'Show the difference')
    await dialog.getByText('timeout: 2s → 1s').waitFor()
    t.notMatch(await dialog.innerText(), /opd/, 'nothing else changes')
    await confirm(page, bold('Apply'), 'partner is changed')
    t.match(await stored(), { version: 2, timeout: '1s' })
  })

  await t.test('5. who changed what, and back', async (t) => {
    const versions = page.getByRole('heading', { name: bold('Versions') })
    await versions.waitFor()
    await page.getByText(/admin, .*timeout: 2s → 1s/).waitFor()
    await press(page, 'Revert to version 1')
    await confirm(page, bold('Revert'), 'partner is as it was in version 1')
    t.match(await stored(), { version: 3, timeout: '2s' })
    t.notOk('opd' in (await stored()), 'OPD was never said')
    await press(page, bold('Undo'))
    await until(async () => (await stored()).timeout === '1s')
    await show(page, base, 'audit', bold('Audit'))
    await page
      .getByText(/timeout/)
      .first()
      .waitFor()
    t.equal(await bid(), 200)
    t.same(faults, [])
  })
})
