/** A reload applies what may change while the service runs, and names what may not (CONTRACT 2). */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfig } from '../../service/config/load.ts'
import { createLoad } from '../../service/config/loader.ts'
import { startService } from '../../service/service.ts'
import { newFolder } from '../support/process.ts'
import { post, raw } from '../support/raw.ts'
import { serveNode } from '../support/served-node.ts'
import { echoSupplier, yamlOf } from '../support/service-node.ts'
import { timePasses, until } from '../support/until.ts'

const priced = 'id: acme, account: a, opd: {enabled: true, holdout: 0}'

async function world(t: Test, more = '', folder = newFolder()) {
  const supplier = await echoSupplier()
  const options = { endpoint: supplier.url, folder, more, suppliers: [priced] }
  const node = await serveNode(options)
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
  })
  const taken = () => node.bidweir.stderr().split('configuration reloaded').length
  /** The file with other words in it, once the service has taken it. */
  const rewritten = async (yaml: string) => {
    const before = taken()
    writeFileSync(join(folder, 'bidweir.yaml'), yaml)
    await until(() => taken() > before)
  }
  return { node, rewritten, yaml: yamlOf(options) }
}

t.test('the file of a node, again and again', async (t) => {
  const { node, rewritten, yaml } = await world(t)

  t.test('a file without suppliers is refused; an empty list removes all', async (t) => {
    const ask = async () =>
      (await raw(node.bidweir.proxyPort, post('/bid/acme', '{"id":"q","ext":{"bids":[]}}'))).status
    const without = yaml.slice(0, yaml.indexOf('suppliers:'))
    writeFileSync(join(node.bidweir.folder, 'bidweir.yaml'), without)
    await until(() => node.bidweir.stderr().includes('reload refused'))
    t.match(node.bidweir.stderr(), /suppliers: found nothing[^"]*, allowed: [^"]*\[\] removes all/)
    t.equal(await ask(), 200)
    await rewritten(`${without}suppliers: []\n`)
    t.equal(await ask(), 404)
    await rewritten(yaml)
  })

  t.test('what waits for a restart is named, the rest of the file is taken', async (t) => {
    const { proxyPort } = node.bidweir
    const changed = yaml
      .replace('{listen: "127.0.0.1:0"}', '{listen: "127.0.0.1:1", maxRequestBytes: 10}')
      .replace(
        'admin: {listen: "127.0.0.1:0"',
        'admin: {listen: "127.0.0.1:2", auth: {embedded: {realm: x}}',
      )
    await rewritten(`store: {retentionDays: 40}\n${changed}`)
    const named = /"paths":\[([^\]]*)\][^\n]*restart needed/.exec(node.bidweir.stderr())![1]!
    t.same(
      named.split(',').map((path) => JSON.parse(path)),
      ['proxy.listen', 'admin.listen', 'admin.auth', 'store'],
    )
    const gauge = async (name: string) => (await node.metrics()).get(name)
    t.equal(await gauge('bidweir_restart_needed'), 1)
    t.equal(await gauge('bidweir_config_last_reload_successful'), 1)
    t.equal((await raw(proxyPort, post('/bid/acme', '{"a":"long"}'))).status, 413, 'a limit')
    t.equal((await node.api('/api/svc/ssp/acme/')).status, 200, 'the realm is the old one')
    const loadedAt = await gauge('bidweir_config_last_reload_success_timestamp_seconds')
    writeFileSync(join(node.bidweir.folder, 'bidweir.yaml'), 'nonsense: 1')
    await until(async () => (await gauge('bidweir_config_last_reload_successful')) === 0)
    t.equal(await gauge('bidweir_restart_needed'), 1, 'of the configuration in use')
    t.equal(await gauge('bidweir_config_last_reload_success_timestamp_seconds'), loadedAt)
    await rewritten(yaml)
    t.equal(await gauge('bidweir_restart_needed'), 0)
    t.equal(await gauge('bidweir_config_last_reload_successful'), 1)
  })

  t.test(
    'the password of the first user waits for no restart: only the first start reads it',
    async (t) => {
      const auth = (password: string) =>
        yaml.replace(
          'admin: {listen: "127.0.0.1:0"',
          `admin: {listen: "127.0.0.1:0", auth: {embedded: {adminPassword: ${password}}}`,
        )
      for (const password of ['the-first-one', 'another-one']) {
        await rewritten(auth(password))
        t.equal((await node.metrics()).get('bidweir_restart_needed'), 0)
      }
      await rewritten(yaml)
    },
  )

  t.test(
    'a supplier without endpoints is standalone only, and a reload gives and takes them',
    async (t) => {
      const bid = () =>
        raw(node.bidweir.proxyPort, post('/bid/acme', '{"id":"q","ext":{"bids":[]}}'))
      const prices = async () => {
        const body =
          '{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"dsp_id":"d","price_dsp":2.5}]}]}'
        const headers = { 'content-type': 'application/json' }
        return (await node.api('/opd/acme_yesbid', { method: 'POST', headers, body })).status
      }
      t.same([(await bid()).status, await prices()], [200, 200])
      await rewritten(yaml.replace(/, endpoints: \[[^\]]*\]/, ''))
      t.same([(await bid()).status, await prices()], [404, 200])
      await rewritten(yaml)
      t.same([(await bid()).status, await prices()], [200, 200])
    },
  )

  t.test('a supplier whose prices are encoded from now on', async (t) => {
    const price = Buffer.from('0.5').toString('base64')
    const encoded = priced.replace('account: a', 'account: a, clearing: {encoding: base64}')
    const { id, svcOpd } = await node.bid({ id: 'encoded', price: 2 })
    const notify = () => node.notify({ bid_id: id, price, svc_opd: svcOpd })
    t.equal((await notify()).http, 400)
    await rewritten(yaml.replace(priced, encoded))
    t.match((await notify()).body, { status: 'attributed' })
    await rewritten(yaml)
    t.equal((await notify()).http, 400)
  })

  t.test('a supplier that is taken out answers 404, and its rows stay', async (t) => {
    const ask = () => raw(node.bidweir.proxyPort, post('/bid/acme', '{"id":"q","ext":{"bids":[]}}'))
    const made = await node.api('/api/svc/ssp/acme/', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"dsp_seats":[{"name":"s","name_external":"S","is_active":false,"qps":[]}]}',
    })
    t.equal(made.status, 201)
    await rewritten(yaml.replaceAll('acme', 'other'))
    t.equal((await ask()).status, 404)
    t.equal((await node.api('/api/svc/ssp/acme/')).status, 404)
    t.equal((await node.api('/api/svc/ssp/other/')).status, 200)
    await rewritten(yaml)
    const back = (await (await node.api('/api/svc/ssp/acme/')).json()) as { dsp_seats: unknown }
    t.match(back.dsp_seats, [{ name: 's', name_external: 'S', is_active: false }])
    t.match(await ask(), { status: 204, headers: { 'x-bidweir-reason': 'inactive' } })
  })

  t.test('signals during a reload: the newest file is the one that holds', async (t) => {
    const file = join(node.folder, 'bidweir.yaml')
    const refused = async () =>
      (await node.metrics()).get('bidweir_config_reloads_total{result="refused"}')
    const before = await refused()
    for (let n = 0; n < 10; n++) {
      writeFileSync(file, yaml.replaceAll('acme', `name-${n}`))
      process.kill(process.pid, 'SIGHUP')
    }
    const status = async (id: string) =>
      (await raw(node.bidweir.proxyPort, post(`/bid/${id}`, '{"id":"q","ext":{"bids":[]}}'))).status
    await until(async () => (await status('name-9')) === 200)
    t.equal(await status('acme'), 404)
    t.equal(await refused(), before)
  })
})

t.test('rates are taken from their file when it changes, and old ones are alerted', async (t) => {
  const folder = newFolder()
  const rates = (more: object, asOf: Date) =>
    writeFileSync(join(folder, 'rates.json'), JSON.stringify({ base: 'USD', rates: more, asOf }))
  const [now, old] = [new Date(), new Date(Date.now() - 25 * 3_600_000)]
  rates({}, now)
  const { node } = await world(t, 'currency: {rates: {file: rates.json}}', folder)
  let n = 0
  const factor = async () => {
    const { in: came, out } = await node.bid({ id: `b${n++}`, cur: 'EUR' })
    return Number(out) / Number(came)
  }
  t.equal(await factor(), 1, 'no rate')
  t.notMatch(node.bidweir.stderr(), /rates are old/)
  rates({ EUR: 0.92 }, now)
  await until(async () => (await factor()) < 1)
  rates({ EUR: 0.92 }, old)
  await until(() => node.bidweir.stderr().includes('exchange rates are old'))
  const age = (await node.metrics()).get('bidweir_rates_age_seconds')!
  t.ok(age >= 25 * 3600 && age < 26 * 3600, `${age} s`)
  t.ok((await factor()) < 1, 'they go on serving')
})

t.test('keys of contexts rotate without a lost win', async (t) => {
  const key = (id: number) => `{id: ${id}, secret: ${Buffer.alloc(32, id).toString('base64url')}}`
  const keys = (...ids: number[]) => `opd: {keys: [${ids.map(key).join(', ')}]}`
  const { node, rewritten, yaml } = await world(t, keys(1))
  const won: { id: string; svcOpd: string }[] = []
  const bids = async (name: string) => {
    for (const n of [1, 2, 3, 4]) won.push(await node.bid({ id: `${name}-${n}` }))
  }
  const report = async (name: string) => {
    const index = won.findIndex(({ id }) => id.startsWith(name))
    const [{ id, svcOpd }] = won.splice(index, 1) as [{ id: string; svcOpd: string }]
    return (await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })).body
  }
  const byContext = { status: 'attributed', by: 'context' }
  await bids('old')
  await rewritten(yaml.replace(keys(1), keys(1, 2)))
  await bids('second')
  t.same([await report('old'), await report('second')], [byContext, byContext])
  await rewritten(yaml.replace(keys(1), keys(2, 1)))
  await bids('first')
  for (const name of ['old', 'second', 'first']) t.same(await report(name), byContext, name)
  await rewritten(yaml.replace(keys(1), keys(2)))
  t.same(await report('first'), byContext, 'the first key encodes')
  for (const name of ['old', 'second'])
    t.equal((await report(name))['code'], 'context_required', `${name}: its key is gone`)
})

t.test(
  'the window of attribution waits for a restart, how long contexts live does not',
  async (t) => {
    const { node, rewritten, yaml } = await world(
      t,
      'opd: {attributionWindow: 30m, contextTtl: 48h}',
    )
    const won = await node.bid({ id: 'b' })
    await rewritten(yaml.replace('30m, contextTtl: 48h', '1ms, contextTtl: 47h'))
    t.match(node.bidweir.stderr(), /"paths":\["opd.attributionWindow"\][^\n]*restart needed/)
    const notice = await node.notify({ bid_id: 'b', price: '0.5', svc_opd: won.svcOpd })
    t.match(notice.body, { status: 'attributed' })
    const metrics = await node.metrics()
    t.equal(
      metrics.get('bidweir_impressions_late_total{ssp="acme",mode="revenue"}') ?? 0,
      0,
      'in time',
    )
  },
)

t.test('an edit and a signal together are one reload, however long it takes', async (t) => {
  const folder = newFolder()
  const file = join(folder, 'bidweir.yaml')
  const yaml = yamlOf({ endpoint: 'http://127.0.0.1:9/', folder, suppliers: [priced] })
  writeFileSync(file, yaml)
  const loaded = loadConfig(file)
  const load = createLoad(file)
  const release = Promise.withResolvers<void>()
  let loads = 0
  const again = async () => {
    loads++
    const next = await load()
    await release.promise
    return next
  }
  const service = await startService({
    loaded: { ...loaded, config: loaded.config! },
    load: again,
    log: { level: 'info', info() {}, warn() {}, error() {} },
    watch: null,
  })
  t.teardown(() => service.stop(0))
  const ids = () => service.config().suppliers.map(({ id }) => id)
  writeFileSync(file, yaml.replaceAll('acme', 'other'))
  process.kill(process.pid, 'SIGHUP')
  await until(() => loads === 1)
  await timePasses(1000, 'the watcher polls four times a second')
  release.resolve()
  await until(() => ids().includes('other'))
  t.equal(loads, 1)
  writeFileSync(file, yaml.replaceAll('acme', 'third'))
  await until(() => ids().includes('third'))
  t.equal(loads, 2, 'the file is watched again')
})
