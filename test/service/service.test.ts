/** The main job, through the public interfaces. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { defaultConfig } from '../../service/default-config.ts'
import { createDemoSupplier } from '../../service/demo/supplier.ts'
import { runHere } from '../support/cli.ts'
import { command, newFolder, startBidweir, token } from '../support/process.ts'
import { walkThrough } from '../support/readme.ts'
import { serveBidweir, serveNode } from '../support/served-node.ts'
import { echoSupplier } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const request = {
  id: 'curl-7',
  imp: [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }],
  site: { domain: 'news.example', publisher: { id: 'p' } },
}

interface Bid {
  id: string
  price: number
  nurl: string
}

const yaml = (endpoint: string, more = '') => `
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0", impressions: {auth: context}}
drain: {grace: 50ms, timeout: 10s}
suppliers:
  - id: demo
    endpoints: [${endpoint}]
    timeout: 20s
    opd: {enabled: true, holdout: 0${more}}
`

async function bid(
  port: number,
): Promise<{ status: number; reason: string | null; bid: Bid | null }> {
  const answer = await fetch(`http://127.0.0.1:${port}/bid/demo`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(request),
  })
  const text = await answer.text()
  return {
    status: answer.status,
    reason: answer.headers.get('x-bidweir-reason'),
    bid:
      text === '' ? null : (JSON.parse(text) as { seatbid: { bid: Bid[] }[] }).seatbid[0]!.bid[0]!,
  }
}

t.test(
  'a bid comes back lowered, its win is attributed once, and the metrics show it',
  async (t) => {
    const supplier = await createDemoSupplier()
    const bidweir = await serveBidweir(yaml(supplier.url))
    t.teardown(async () => {
      await bidweir.stop()
      await supplier.close()
    })
    const admin = `http://127.0.0.1:${bidweir.adminPort}`
    const won = (await bid(bidweir.proxyPort)).bid!
    const url = new URL(won.nurl)
    t.ok(won.price < Number(url.searchParams.get('in')), 'the price is lowered')
    t.equal(Number(url.searchParams.get('out')), won.price)
    const context = url.searchParams.get('svc_opd')!
    t.match(context, /^[A-Za-z0-9_-]{1,512}$/)
    const notice = `${admin}/opd/imp?bid_id=${won.id}&price=${won.price}&svc_opd=${context}`
    t.match(await (await fetch(notice)).json(), { status: 'attributed', by: 'context' })
    t.match(await (await fetch(notice)).json(), { status: 'duplicate' })
    t.equal((await fetch(`${admin}/opd/imp?bid_id=x&price=1&svc_opd=forged`)).status, 401)
    t.equal((await fetch(notice, { method: 'HEAD' })).status, 405)
    const metrics = await (await fetch(`${admin}/metrics`)).text()
    t.match(metrics, /bidweir_requests_total\{ssp="demo",outcome="answer"\} 1/)
    t.match(metrics, /bidweir_impressions_total\{[^}]*attributed[^}]*\} 1/)
    t.equal((await fetch(`${admin}/readyz`)).status, 200)
    t.equal((await fetch(`${admin}/readyz/admin`)).status, 200)
  },
)

t.test('acknowledged wins survive kill -9, and bids follow calls of the API', async (t) => {
  const supplier = await createDemoSupplier()
  const folder = newFolder()
  const first = await startBidweir(yaml(supplier.url), folder)
  const access = await token(first)
  const headers = { authorization: `Bearer ${access}`, 'content-type': 'application/json' }
  const path = (port: number) => `http://127.0.0.1:${port}/api/svc/ssp/demo/`
  const created = await fetch(path(first.adminPort), {
    method: 'POST',
    headers,
    body: JSON.stringify({ dsp_seats: [{ name: 's', qps: [] }], svc: [{ location: 'local' }] }),
  })
  t.equal(created.status, 201)
  const off = await fetch(path(first.adminPort), {
    method: 'PUT',
    headers,
    body: JSON.stringify({ datacenters: [{ location: 'local', is_active: false }] }),
  })
  t.equal(off.status, 200)
  await until(async () => (await bid(first.proxyPort)).reason === 'inactive')
  first.child.kill('SIGKILL')
  await first.exited
  const second = await serveBidweir(yaml(supplier.url), folder)
  t.teardown(async () => {
    await second.stop()
    await supplier.close()
  })
  t.equal(second.password, null, 'the admin is made once')
  t.equal((await bid(second.proxyPort)).reason, 'inactive')
  t.equal(
    (await fetch(path(second.adminPort), { headers })).status,
    200,
    'tokens outlive the process',
  )
  writeFileSync(join(folder, 'bidweir.yaml'), `location: elsewhere${yaml(supplier.url)}`)
  await until(async () => second.stderr().includes('configuration reloaded'))
  t.match(second.stderr(), /"paths":\["location"\][^\n]*restart needed/)
  t.equal((await bid(second.proxyPort)).reason, 'inactive', 'a node stays where it started')
})

t.test('a changed file is reloaded, a wrong one is refused with all its faults', async (t) => {
  const supplier = await createDemoSupplier()
  const bidweir = await serveBidweir(yaml(supplier.url))
  t.teardown(async () => {
    await bidweir.stop()
    await supplier.close()
  })
  const file = join(bidweir.folder, 'bidweir.yaml')
  writeFileSync(file, 'suppliers: [{id: 7}]\n')
  await until(async () => bidweir.stderr().includes('reload refused'))
  t.equal((await bid(bidweir.proxyPort)).status, 200, 'nothing has changed')
  writeFileSync(file, yaml(supplier.url).replace('enabled: true', 'enabled: shadow'))
  await until(async () => bidweir.stderr().includes('configuration reloaded'))
  const { bid: shadowed } = await bid(bidweir.proxyPort)
  const url = new URL(shadowed!.nurl)
  t.equal(Number(url.searchParams.get('in')), shadowed!.price, 'shadow leaves the price')
  writeFileSync(file, yaml(supplier.url, ', minFactor: 7'))
  await until(async () => bidweir.stderr().split('reload refused').length === 3)
  t.match(bidweir.stderr(), /suppliers\[0\].opd.minFactor: found 7, allowed/)
  const metrics = await (await fetch(`http://127.0.0.1:${bidweir.adminPort}/metrics`)).text()
  t.match(metrics, 'bidweir_config_reloads_total{result="refused"} 2')
  t.match(metrics, 'bidweir_opd_config_invalid{ssp="demo"} 0')
  const url2 = new URL((await bid(bidweir.proxyPort)).bid!.nurl)
  t.match(url2.searchParams.get('svc_opd'), /^[\w-]+$/, 'OPD goes on as it was')
})

t.test('an opd block with faults is off from a start, until a reload has a good one', async (t) => {
  const supplier = await createDemoSupplier()
  const bidweir = await serveBidweir(yaml(supplier.url, ', minFactor: 7'))
  t.teardown(async () => {
    await bidweir.stop()
    await supplier.close()
  })
  const invalid = async () => {
    const text = await (await fetch(`http://127.0.0.1:${bidweir.adminPort}/metrics`)).text()
    return /^bidweir_opd_config_invalid\{ssp="demo"\} (\d)$/m.exec(text)?.[1]
  }
  t.match(bidweir.stderr(), 'OPD is off for this supplier')
  t.equal(await invalid(), '1')
  t.match(
    (await bid(bidweir.proxyPort)).bid!.nurl,
    /SVC_OPD_CONTEXT/,
    'the answer is left as it is',
  )
  const file = join(bidweir.folder, 'bidweir.yaml')
  writeFileSync(file, yaml(supplier.url).replace(/ {4}opd: .*\n/, ''))
  await until(async () => bidweir.stderr().includes('configuration reloaded'))
  t.equal(await invalid(), '0', 'without a block no block has faults')
})

t.test('commands: check, key new, user add, wrong configurations, wrong usage', async (t) => {
  const folder = newFolder()
  writeFileSync(join(folder, 'good.yaml'), yaml('http://127.0.0.1:9/'))
  writeFileSync(join(folder, 'bad.yaml'), 'location: 3\nsuppliers: [{id: x, endpoints: 1}]\n')
  const good = await runHere(['check', '--config', join(folder, 'good.yaml')])
  t.equal(good.code, 0)
  const bad = await command(['check', '--config', 'bad.yaml'], { cwd: folder })
  t.equal(bad.code, 1)
  t.match(bad.stderr, /bad.yaml:1: location: found 3, allowed: string/)
  t.match(bad.stderr, /suppliers\[0\].endpoints: found 1, allowed: array/)
  const start = await command(['start', '--config', 'bad.yaml'], { cwd: folder })
  t.equal(start.code, 78)
  t.equal(start.stderr, bad.stderr, 'the same list')
  const key = await runHere(['key', 'new'])
  t.match(key.stdout, /^[A-Za-z0-9_-]{43}\n$/)
  const add = ['user', 'add', 'ann', '--config', 'good.yaml', '--role', 'api', '--account', 'acme']
  const added = await command(add, { cwd: folder, stdin: 'correct horse battery\n' })
  t.equal(added.code, 0, added.stderr)
})

// The walk through the API of docs/management-api.md, as pasted, against the embedded default.
t.test(
  'token, list, create a buyer, switch it, lower an allotment, and see the effect on traffic',
  async (t) => {
    const supplier = await createDemoSupplier()
    const embedded = defaultConfig(supplier.url)
    // the embedded default, at ports of its own
    const bidweir = await serveBidweir(
      JSON.stringify({
        ...embedded,
        proxy: { listen: '127.0.0.1:0' },
        admin: { ...embedded.admin, listen: '127.0.0.1:0' },
      }),
    )
    t.teardown(async () => {
      await bidweir.stop()
      await supplier.close()
    })
    const api = `http://127.0.0.1:${bidweir.adminPort}`
    await walkThrough(t, {
      ...{ api, bids: `http://127.0.0.1:${bidweir.proxyPort}`, auth: api },
      ...{ login: 'admin', password: bidweir.password! },
    })
  },
)

t.test('a supplier whose seats are all inactive is sent nothing until one is active', async (t) => {
  const supplier = await echoSupplier()
  const node = await serveNode({ endpoint: supplier.url, suppliers: ['id: acme'] })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const send = async (method: string, dsp_seats: object[]) => {
    const body = JSON.stringify({ dsp_seats })
    const headers = { 'content-type': 'application/json' }
    const { status } = await node.api('/api/svc/ssp/acme/', { method, headers, body })
    t.equal(status, method === 'POST' ? 201 : 200)
  }
  const ask = async () => {
    const url = `http://127.0.0.1:${node.bidweir.proxyPort}/bid/acme`
    const headers = { 'content-type': 'application/json' }
    const body = '{"id":"q","ext":{"bids":[{"id":"b","impid":"1","price":1}]}}'
    const response = await fetch(url, { method: 'POST', headers, body })
    await response.body?.cancel()
    return response.headers.get('x-bidweir-reason') ?? response.status
  }
  t.equal(await ask(), 200, 'without seats')
  await send('POST', [
    { name: 'other', is_active: false },
    { name: 's', is_active: false },
  ])
  await until(async () => (await ask()) === 'inactive')
  const sent = supplier.requests.length
  t.equal(await ask(), 'inactive')
  t.equal(supplier.requests.length, sent)
  await send('PUT', [{ name: 's', is_active: true }])
  await until(async () => (await ask()) === 200)
})
