/** The console of two nodes behind a balancer, in a browser: sums that do not jump, one node on demand, faults of nodes. */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import type { LiveSnapshot } from '../../../admin/fleet/live-schema.ts'
import { browserAbsent, launch, logIn, openPage } from '../../support/console.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { publishSooner, serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

/** Each request goes to the next of the nodes. */
async function balancer(t: Test, targets: string[]): Promise<string> {
  let count = 0
  const server = createServer((from, to) => {
    const { url, method, headers } = from
    const asked = request(`${targets[count++ % targets.length]}${url}`, { method, headers })
    asked.on('response', (response) => {
      to.writeHead(response.statusCode!, response.headers)
      response.pipe(to)
    })
    asked.on('error', () => to.destroy())
    from.pipe(asked)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

publishSooner()
const skip = browserAbsent || postgresAbsent || redisAbsent

t.test('two nodes behind a balancer', { skip }, async (t) => {
  const [database, redis, supplier] = await Promise.all([
    startPostgres(),
    startRedis(),
    echoSupplier(),
  ])
  const secret = Buffer.alloc(32, 5).toString('base64url')
  const options = {
    suppliers: ['id: acme, name: Acme, opd: {enabled: true, holdout: .5}'],
    endpoint: supplier.url,
    more: `store: {database: "${database.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${secret}}]}`,
  }
  const one = await serveNode(options)
  const other = await serveNode(options)
  const targets = [one.admin, other.admin]
  const base = await balancer(t, targets)
  const browser = await launch()
  t.teardown(async () => {
    await browser.close()
    await Promise.all([one.stop(), other.stop()])
    await Promise.all([supplier.close(), redis.stop(), database.close()])
  })
  for (let index = 0; index < 8; index++) {
    const node = index < 3 ? one : other
    const { id, svcOpd, out } = await node.bid({ id: `b${index}`, price: 2 })
    const { http } = await node.notify({ bid_id: id, price: out, svc_opd: svcOpd })
    t.equal(http, 200)
  }
  // the password of the first node, and so its token, is that of both
  const headers = { authorization: `Bearer ${await one.login()}` }
  const live = async ({ admin }: typeof one) =>
    (await (await fetch(`${admin}/api/svc/live/`, { headers })).json()) as LiveSnapshot
  const [first, second] = [(await live(one)).node, (await live(other)).node]
  // each node publishes its figures a little later
  const all = async (node: typeof one) =>
    (await live(node)).integrations[0]?.notices['attributed'] === 8
  await until(async () => (await all(one)) && (await all(other)), { what: 'figures of both nodes' })

  const { page, faults } = await openPage(browser)
  const polls: string[] = []
  page.on('response', async (response) => {
    if (!response.url().includes('/api/svc/live/') || !response.ok()) return
    const snapshot = await response.json().catch(() => null)
    if (snapshot !== null) polls.push((snapshot as LiveSnapshot).node)
  })
  await logIn(page, base, 'admin', 'supplier/acme', one.bidweir.password!)
  const notices = page.getByRole('table', { name: 'Notices' })
  const attributed = async (wanted: number) =>
    until(async () => (await notices.textContent())?.trim() === `attributed${wanted}`, {
      what: `${wanted} attributed notices`,
    })
  const figuresOf = page.getByLabel('Figures of')

  t.test('figures are sums, whichever node answers', async (t) => {
    await attributed(8)
    const before = polls.length
    const seen = new Set<string>()
    const both = () => {
      const answered = polls.slice(before)
      return answered.filter((id) => id === first).length > 1 && answered.includes(second)
    }
    await until(async () => {
      seen.add((await notices.textContent())!.trim())
      return both()
    })
    t.same([...seen], ['attributed8'], 'no jump between the answers of the nodes')
  })

  t.test('one node alone, chosen in the header or among the nodes', async (t) => {
    await figuresOf.selectOption(first)
    await attributed(3)
    await figuresOf.selectOption(second)
    await attributed(5)
    await page.goto(`${base}/#/suppliers`)
    await page.getByText(`, node ${second}. Bids, wins and margin: today, all nodes.`).waitFor()
    const wins = page.getByRole('row', { name: /^Acme/ }).getByText('of 8 bids')
    await wins.waitFor()
    await page.goto(`${base}/#/nodes`)
    t.equal(await page.locator('tbody tr').count(), 2)
    await page.getByRole('button', { name: `Only this: ${first}` }).click()
    await page.goto(`${base}/#/supplier/acme`)
    await attributed(3)
    await figuresOf.selectOption('')
    await attributed(8)
  })

  t.test('a fault of a node is on every screen, and names the node', async () => {
    const problem = (page: Page, text: RegExp) =>
      page.getByRole('list', { name: 'Problems of nodes' }).getByText(text)
    const file = join(other.folder, 'bidweir.yaml')
    const good = readFileSync(file, 'utf8')
    writeFileSync(file, good.replace('timeout: 20s', 'timout: 20s'))
    const refused = problem(page, new RegExp(`Node ${second}: the configuration file has faults`))
    await until(() => refused.isVisible(), { what: 'a refused configuration on the page' })
    await until(async () => /^\(1\) acme/.test(await page.title()))
    writeFileSync(file, good.replace('proxy:', 'location: elsewhere\nproxy:'))
    const waiting = problem(page, new RegExp(`Node ${second}: .* waits for a restart: location`))
    await until(() => waiting.isVisible(), { what: 'a restart that is needed on the page' })
    await page.goto(`${base}/#/nodes`)
    await page
      .getByRole('row', { name: new RegExp(second) })
      .getByText('waits for a restart: location')
      .waitFor()
    await redis.stop()
    const away = problem(page, /All nodes: Redis does not respond/)
    await until(() => away.isVisible(), { what: 'an absent Redis on the page' })
    await redis.start()
    await until(() => away.isHidden(), { what: 'a Redis that is back' })
  })

  t.test('a node that ends is left out, and what was chosen goes back to all', async (t) => {
    await page.goto(`${base}/#/supplier/acme`)
    await figuresOf.selectOption(second)
    await attributed(5)
    targets.pop()
    await other.stop()
    await attributed(3)
    t.equal(await figuresOf.inputValue(), '')
    await page.getByText('Not up to date').waitFor({ state: 'detached' })
  })
  t.same(faults, [])
})
