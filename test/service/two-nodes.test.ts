/** Two whole nodes on one PostgreSQL and one Redis: both apply a change within 2 s, whichever received it (CONTRACT 3, 8). */
import t, { type Test } from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { type ServedNode as Node, serveNode } from '../support/served-node.ts'
import { echoSupplier, startNode } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')
const json = { 'content-type': 'application/json' }

async function world(t: Test) {
  const supplier = await echoSupplier()
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const options = {
    endpoint: supplier.url,
    more: `location: east\nstore: {database: "${postgres.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}', 'id: other, opd: {enabled: true}'],
  }
  // Processes of their own, since their limits are tested under load. The first makes the admin, the second finds it.
  const one = await startNode(options)
  const two = await startNode(options)
  t.teardown(async () => {
    await Promise.all([one.stop(), two.stop()])
    await Promise.all([supplier.close(), redis.stop(), postgres.close()])
  })
  const nodes = [one, two] as const
  const authorization = `Bearer ${await one.login()}`
  const call = (node: Node, method: string, path: string, body: unknown) =>
    fetch(`${node.admin}${path}`, {
      method,
      headers: { ...json, authorization },
      body: JSON.stringify(body),
    })
  const refusal = async (node: Node, ssp = 'acme') => {
    const answer = await fetch(`http://127.0.0.1:${node.bidweir.proxyPort}/bid/${ssp}`, {
      method: 'POST',
      headers: json,
      body: JSON.stringify({
        id: 'q',
        imp: [{ id: '1', banner: { w: 300, h: 250 } }],
        ext: { bids: [{ id: 'b', impid: '1', price: 1 }] },
      }),
    })
    await answer.body?.cancel()
    return answer.status === 200 ? null : answer.headers.get('x-bidweir-reason')
  }
  return { nodes, one, two, options, redis, call, refusal }
}

t.test('two nodes', { skip: postgresAbsent || redisAbsent }, async (t) => {
  const { nodes, one, two, options, redis, call, refusal } = await world(t)
  const path = '/api/svc/ssp/acme/'
  const took: number[] = []
  const on = (is_active: boolean) => ({ dsp_seats: [{ name: 's', is_active }] })
  const made = await call(one, 'POST', path, {
    dsp_seats: [
      { name: 's', name_external: 'S', is_active: true, qps: [{ location: 'east', value: 900 }] },
    ],
    datacenters: [{ location: 'east', client_qps: null, is_active: true }],
  })
  t.equal(made.status, 201)
  const other = { dsp_seats: [{ name: 's', qps: [] }] }
  t.equal((await call(two, 'POST', path, other)).status, 409)

  t.test('a seat switched at one is off at both, and on again', async (t) => {
    for (const [teller, active, said] of [
      [one, false, 'inactive'],
      [two, true, null],
    ] as const) {
      t.equal((await call(teller, 'PUT', path, on(active))).status, 200)
      for (const node of nodes) {
        took.push(await until(async () => (await refusal(node)) === said))
        t.equal(await refusal(node), said)
      }
    }
  })

  t.test('a hold at one node stops both, for one integration or all', async (t) => {
    const held = async (node: Node, ssp: string) => {
      const { in: before, out } = await node.bid({ id: `h${Math.random()}`, price: 1.5, ssp })
      return before === out
    }
    const hold = (node: Node, ssp: string, hold: boolean) =>
      call(node, 'PUT', `/api/svc/opd/${ssp}/`, { hold })
    const inEffect = async (ssp: string, want: boolean) => {
      for (const node of nodes) {
        took.push(await until(async () => (await held(node, ssp)) === want))
        t.equal(await held(node, ssp), want)
      }
    }
    t.equal((await hold(one, 'acme', true)).status, 200)
    await inEffect('acme', true)
    t.equal((await hold(two, 'acme', false)).status, 200)
    await inEffect('acme', false)
    t.equal((await hold(two, '*', true)).status, 200)
    await inEffect('acme', true)
    await inEffect('other', true)
    t.equal((await hold(one, '*', false)).status, 200)
    await inEffect('acme', false)
    // The median, since a busy machine may stop any one of them.
    const median = took.sort((one, other) => one - other)[took.length >> 1]!
    t.ok(median < 2000, `in effect after ${median.toFixed()} ms (median)`)
  })

  t.test('an allotment is shared by the nodes that live', async (t) => {
    const allotted = async (node: Node) =>
      (await node.metrics()).get('bidweir_qps_allotment{ssp="acme"}')
    const lower = { datacenters: [{ location: 'east', client_qps: 40 }] }
    t.equal((await call(two, 'PUT', path, lower)).status, 200)
    for (const node of nodes) await until(async () => (await allotted(node)) === 20)
    await redis.stop()
    const three = await serveNode(options)
    t.equal(await allotted(three), 20, 'the number of nodes is known without Redis')
    await three.stop()
    await redis.start()
    for (const node of nodes)
      await until(async () => (await node.metrics()).get('bidweir_redis_up') === 1)
    const began = performance.now()
    let passed = 0
    let refused = 0
    // Eight callers of each node: on a busy machine as well they ask for more than is allotted.
    await Promise.all(
      [...nodes, ...nodes, ...nodes, ...nodes]
        .flatMap((node) => [node, node])
        .map(async (node) => {
          while (performance.now() - began < 1500) {
            const reason = await refusal(node)
            if (reason === null) passed++
            else if (reason === 'qps') refused++
            else t.fail(reason)
          }
        }),
    )
    const seconds = (performance.now() - began) / 1000
    t.ok(refused > 0)
    // In the first two seconds with Redis up to a tenth more.
    t.ok(passed <= 1.1 * 40 * seconds + 4 + 2 + 1, `${passed} of both in ${seconds} s`)

    const aloneSince = performance.now()
    let alone = 0
    await until(async () => {
      for (let n = 0; n < 20; n++) if ((await refusal(one)) === null) alone++
      const elapsed = (performance.now() - aloneSince) / 1000
      return elapsed > 1 && alone > 1.2 * 20 * elapsed + 4
    })
    t.pass('a node that has all the load gets more than half of the allotment')

    await two.stop('SIGKILL')
    await until(async () => (await allotted(one)) === 40)
    t.equal(
      (await call(one, 'PUT', path, { datacenters: [{ location: 'east', is_active: false }] }))
        .status,
      200,
    )
    await until(async () => (await refusal(one)) === 'inactive')
  })
})
