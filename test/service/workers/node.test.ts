/**
 * Several processes share the listener: one admin plane, one ledger, wins attributed whoever decided. What an operator
 * changes reaches all of them: seats, data centers, holds, models, the file (CONTRACT 2, 3, 8).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { post, raw } from '../../support/raw.ts'
import { echoSupplier, sumOf, yamlOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'
import { startWorkers } from '../../support/workers.ts'

const priced = ['id: acme, opd: {enabled: true, holdout: 0, explore: 0}']
const path = '/api/svc/ssp/acme/'

async function world(t: Test, more = '', suppliers = priced) {
  const supplier = await echoSupplier()
  const options = { endpoint: supplier.url, auth: 'none', workers: 2, suppliers, more } as const
  const node = await startWorkers(options)
  t.teardown(() => Promise.all([node.stop('SIGKILL'), supplier.close()]))
  const call = async (method: string, to: string, body: unknown) => {
    const headers = { 'content-type': 'application/json' }
    const { status } = await node.api(to, { method, headers, body: JSON.stringify(body) })
    return status
  }
  const bid = post(
    '/bid/acme',
    '{"id":"q","imp":[{"id":"1"}],"ext":{"bids":[{"id":"b","impid":"1","price":1}]}}',
    'Connection: close\r\n',
  )
  const ask = () => raw(node.bidweir.proxyPort, bid)
  /** What several requests return, of each process one at least: connections are spread at random. */
  async function ofEach<T>(request: () => Promise<T>): Promise<T[]> {
    const before = await node.requestsByWorker()
    const answers: T[] = []
    await until(async () => {
      answers.push(...(await Promise.all(Array.from({ length: 4 }, request))))
      const now = await node.requestsByWorker()
      return now.every((requests, index) => requests > before[index]!)
    })
    return answers
  }
  const all = (reason: string | undefined) => async () =>
    (await ofEach(ask)).every(({ headers }) => headers['x-bidweir-reason'] === reason)
  let bids = 0
  /** Prices of a bid of 2. */
  const prices = () => ofEach(async () => (await node.bid({ id: `h${bids++}`, price: 2 })).price)
  return { node, call, ask, all, prices, yaml: yamlOf(options) }
}

t.test('bids and notices of a node of two processes', async (t) => {
  const { node } = await world(t)

  t.test('bids of all processes: wins, bare and with context, and sums', async (t) => {
    const count = 40
    const bids = []
    for (let n = 0; n < count; n++) bids.push(await node.bid({ id: `bid-${n}`, price: 2 }))
    const seen = await node.requestsByWorker()
    t.ok(seen.every((requests) => requests > 0) && seen.length === 2, `spread ${seen}`)
    for (const [n, { id, svcOpd }] of bids.entries()) {
      const context = n % 2 === 0 ? svcOpd : undefined
      const { body } = await node.notify({ bid_id: id, price: '0.5', svc_opd: context })
      t.match(body, { status: 'attributed', by: n % 2 === 0 ? 'context' : 'bid_log' })
    }
    const metrics = await node.metrics()
    t.equal(sumOf(metrics, 'bidweir_requests_total', 'outcome="answer"'), count)
    t.equal(sumOf(metrics, 'bidweir_bids_total'), count)
    t.equal(sumOf(metrics, 'bidweir_request_duration_seconds_count'), count)
    const [row] = await node.report('discrepancy?ssp=acme&by=ssp')
    t.match(row, { decided: count, wins: count, unattributed: 0 })
  })

  t.test('a notice at once, bare and with context, wins one time', async (t) => {
    for (let n = 0; n < 30; n++) {
      const { id, svcOpd } = await node.bid({ id: `at-once-${n}`, price: 2 })
      const notices = await Promise.all([
        node.notify({ bid_id: id, price: '0.5' }),
        node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd }),
      ])
      const statuses = notices.map(({ body }) => body['status']).toSorted()
      t.same(statuses, ['attributed', 'duplicate'], 'the decision is found without waiting')
    }
    const [row] = await node.report('discrepancy?ssp=acme&by=ssp')
    t.match(row, { decided: 70, wins: 70, unattributed: 0, duplicate: 30 })
  })

  t.test('the latest decision of a bid id counts, whichever process made it', async (t) => {
    for (let n = 0; n < 12; n++) {
      const price = 2 + n
      const { svcOpd } = await node.bid({ id: 'same', price })
      const explained = await node.api(`/api/svc/decisions/${svcOpd}?bid_id=same`)
      const { id } = (await explained.json()) as { id: string }
      await node.notify({ bid_id: 'same', price: '0.5' })
      const by = await node.notify({ bid_id: 'same', price: '0.5', svc_opd: svcOpd })
      t.equal(by.body['status'], 'duplicate', `the bare notice was that of ${id}`)
    }
  })
})

// A node of its own: a model that has seen wins may keep the price of a bid, one that has seen none lowers all.
t.test('changes of a node of two processes', async (t) => {
  const { node, call, ask, all, prices, yaml } = await world(t, 'location: east')

  t.test('seats, data centers and holds apply in all processes', async (t) => {
    const seat = (is_active: boolean) => ({ dsp_seats: [{ name: 's', is_active }] })
    const created = await call('POST', path, {
      dsp_seats: [
        {
          name: 's',
          name_external: 'S',
          is_active: false,
          qps: [{ location: 'east', value: 900 }],
        },
      ],
      datacenters: [{ location: 'east', client_qps: null, is_active: true }],
    })
    t.equal(created, 201)
    await until(all('inactive'))
    t.equal(await call('PUT', path, seat(true)), 200)
    await until(all(undefined))
    const location = (fields: object) => ({ datacenters: [{ location: 'east', ...fields }] })
    t.equal(await call('PUT', path, location({ is_active: false })), 200)
    await until(all('inactive'))
    t.equal(await call('PUT', path, location({ is_active: true, client_qps: 0 })), 200)
    await until(all('qps'))
    t.equal(await call('PUT', path, location({ client_qps: null })), 200)
    await until(all(undefined))

    t.equal(await call('PUT', '/api/svc/opd/acme/', { hold: true }), 200)
    await until(async () => (await prices()).every((price) => price === 2))
    t.equal(await call('PUT', '/api/svc/opd/acme/', { hold: false }), 200)
    await until(async () => (await prices()).every((price) => price < 2))
  })

  t.test('an allotment is that of the node, not of each process', async (t) => {
    const qps = 40
    const allot = (client_qps: number | null) =>
      call('PUT', path, { datacenters: [{ location: 'east', client_qps }] })
    await allot(0)
    await until(all('qps'))
    const began = performance.now()
    await allot(qps)
    let passed = 0
    for (let n = 0; n < 25; n++) {
      const answers = await Promise.all(Array.from({ length: 20 }, ask))
      passed += answers.filter(({ status }) => status === 200).length
    }
    const seconds = (performance.now() - began) / 1000
    // The bucket holds 0.1 s of it, and each process may admit a request in advance.
    const most = qps * seconds + qps / 10 + 2
    t.ok(passed > 0 && passed <= most, `${passed} in ${seconds} s, at most ${most}`)
    await allot(null)
    await until(all(undefined))
  })

  t.test('models: frozen and thawed in all processes, which learn from each other', async (t) => {
    const merged = async () =>
      sumOf(await node.metrics(), 'bidweir_model_deltas_total', 'result="merged"')
    const before = await merged()
    for (let n = 0; n < 20; n++) {
      const { id, svcOpd } = await node.bid({ id: `m${n}`, price: 2 })
      await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
    }
    // Exposures of the worker settle, and the first process learns them.
    await until(async () => (await merged()) > before)
    t.equal(await call('POST', '/api/svc/models/freeze', {}), 200)
    t.equal(await call('POST', '/api/svc/models/unfreeze', {}), 200)
  })

  t.test('a valid file reaches all processes, an invalid one none', async (t) => {
    const file = join(node.folder, 'bidweir.yaml')
    const reloads = async (result: string) =>
      sumOf(await node.metrics(), 'bidweir_config_reloads_total', `result="${result}"`)
    writeFileSync(file, yaml.replace('id: acme', 'id: other'))
    await until(async () => (await reloads('taken')) === 1)
    const statuses = async () => {
      // 404 is not counted as a request of a supplier: enough connections for both processes.
      const answers = []
      for (let n = 0; n < 24; n++)
        answers.push((await raw(node.bidweir.proxyPort, post('/bid/acme', '{}'))).status)
      return new Set(answers)
    }
    t.same(await statuses(), new Set([404]))
    writeFileSync(file, yaml.replace('timeout: 20s', 'timeout: soon'))
    await until(async () => (await reloads('refused')) === 1)
    t.same(await statuses(), new Set([404]))
    writeFileSync(file, yaml.replace('workers: 2', 'workers: 3, maxRequestBytes: 10'))
    await until(async () => (await reloads('taken')) === 2)
    t.match(node.bidweir.stderr(), /restart needed/)
    t.same(new Set(await all413(node.bidweir.proxyPort)), new Set([413]))
    writeFileSync(file, yaml)
    await until(async () => (await reloads('taken')) === 3)
    await until(all(undefined))
  })
})

t.test('a cap of a day holds for all processes', async (t) => {
  const capped = 'id: acme, opd: {enabled: true, holdout: 0, explore: 0, caps: {perDay: 0.000001}}'
  const { node, prices } = await world(t, '', [capped])
  const { id, price, svcOpd } = await node.bid({ id: 'first', price: 2 })
  t.ok(price < 2)
  await node.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
  await until(async () => (await prices()).every((price) => price === 2))
})

async function all413(port: number): Promise<number[]> {
  const body = '{"id":"longer than ten bytes"}'
  const statuses = []
  for (let n = 0; n < 24; n++) statuses.push((await raw(port, post('/bid/acme', body))).status)
  return statuses
}
