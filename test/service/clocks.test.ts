/**
 * Two whole nodes whose clocks are 40 minutes apart: tokens, contexts, wins, commands and live nodes are the same, by the clock of
 * the database (CONTRACT 13).
 */
import t from 'tap'
import type { LiveSnapshot } from '../../admin/fleet/live-schema.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { echoSupplier, type Node, startNode, sumOf } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 9).toString('base64url')
const minutes = 60_000
const json = { 'content-type': 'application/json' }

t.test('clocks 40 minutes apart', { skip: postgresAbsent }, async (t) => {
  const [supplier, postgres] = await Promise.all([echoSupplier(), startPostgres()])
  const options = {
    endpoint: supplier.url,
    auth: 'none' as const,
    more: `store: {database: "${postgres.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
    suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
  }
  const fast = await startNode({ ...options, ahead: 20 * minutes })
  // With a process of its own for bids.
  const slow = await startNode({
    ...options,
    ...{ ahead: -20 * minutes, workers: 2, freshConnections: true },
  })
  t.teardown(() => Promise.all([fast.stop(), slow.stop(), supplier.close(), postgres.close()]))
  const password = fast.bidweir.password!
  const tokens = async (node: Node, form: Record<string, string>) => {
    const answer = await fetch(`${node.admin}/auth/realms/main/protocol/openid-connect/token`, {
      method: 'POST',
      body: new URLSearchParams({ client_id: 'public-client', ...form }),
    })
    return {
      http: answer.status,
      ...((await answer.json()) as { access_token: string; refresh_token: string }),
    }
  }
  const call = (node: Node, token: string, path: string, method = 'GET', body?: object) =>
    fetch(`${node.admin}${path}`, {
      method,
      headers: { ...json, authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })

  const both = [
    ['ahead', fast, slow],
    ['behind', slow, fast],
  ] as const
  for (const [name, one, other] of both)
    t.test(`tokens of a node that is ${name}`, async (t) => {
      const login = { grant_type: 'password', username: 'admin', password }
      const issued = await tokens(one, login)
      t.equal(issued.http, 200)
      for (const node of [one, other])
        t.equal((await call(node, issued.access_token, '/api/svc/ssp/')).status, 200)
      const { refresh_token } = issued
      const next = await tokens(other, { grant_type: 'refresh_token', refresh_token })
      t.equal(next.http, 200)
      for (const node of [one, other])
        t.equal((await call(node, next.access_token, '/api/svc/ssp/')).status, 200)
    })

  for (const [name, one, other] of both)
    t.test(`a bid of a node that is ${name} is one win`, async (t) => {
      const id = `bid ${name}`
      const { svcOpd } = await one.bid({ id })
      const bare = { bid_id: id, price: '0.5' }
      t.match((await other.notify(bare)).body, { status: 'unattributed' })
      const full = { ...bare, svc_opd: svcOpd }
      t.match((await one.notify(full)).body, { status: 'attributed', by: 'context' })
      for (const node of [one, other])
        for (const notice of [bare, full])
          t.match((await node.notify(notice)).body, { status: 'duplicate' })
      const later = await one.bid({ id: `${id}, by context` })
      const notice = { bid_id: later.id, price: '0.5', svc_opd: later.svcOpd }
      t.match((await other.notify(notice)).body, { status: 'attributed', by: 'context' })
    })

  for (const [name, one, other] of both)
    t.test(`contexts of a node that is ${name} are valid at the other`, async (t) => {
      for (let n = 0; n < 10; n++) {
        const { id, svcOpd } = await one.bid({ id: `context ${name} ${n}` })
        const { body } = await other.notify({ bid_id: id, price: '0.5', svc_opd: svcOpd })
        t.match(body, { status: 'attributed', by: 'context' })
        t.notOk(body['late'])
      }
      const count = async (context: string) =>
        sumOf(await other.metrics(), 'bidweir_contexts_total', `context="${context}"`)
      t.equal((await count('invalid')) + (await count('expired')), 0)
    })

  t.test('the offset of each clock is a metric, and a line in the console', async (t) => {
    const problems = async () => {
      const answer = await call(slow, await fast.login(), '/api/svc/live/')
      const { nodes } = (await answer.json()) as LiveSnapshot
      return nodes.flatMap(({ problems }) => problems.map(({ text }) => text)).sort()
    }
    for (const [node, minutesAhead] of [
      [fast, -20],
      [slow, 20],
    ] as const) {
      const offset = sumOf(await node.metrics(), 'bidweir_clock_offset_seconds')
      t.ok(Math.abs(offset - minutesAhead * 60) < 5, `${offset} s`)
    }
    await until(async () => (await problems()).length === 2, { what: 'figures of both nodes' })
    const [ahead, behind] = await problems()
    t.match(ahead, /^the clock of the node is 1\d\d\d\.\d s ahead of that of the database$/)
    t.match(behind, /^the clock of the node is 1\d\d\d\.\d s behind that of the database$/)
  })

  t.test('an entry of the audit trail has the time of the database', async (t) => {
    const token = await fast.login()
    const answer = await call(fast, token, '/api/svc/opd/acme/', 'PUT', { hold: true })
    t.equal(answer.status, 200)
    t.equal((await call(fast, token, '/api/svc/opd/acme/', 'PUT', { hold: false })).status, 200)
    const trail = (await (await call(slow, token, '/api/svc/audit/?limit=1')).json()) as {
      at: string | number
    }[]
    const age = Date.now() - new Date(trail[0]!.at).getTime()
    t.ok(Math.abs(age) < 5 * minutes, `${age} ms`)
  })

  t.test('the last word about models and holds wins, whoever says it', async (t) => {
    const token = await fast.login()
    const frozen = async (node: Node) => {
      const answer = await call(node, token, '/api/svc/models/')
      return ((await answer.json()) as { frozen: boolean }).frozen
    }
    for (const [node, verb] of [
      [fast, 'freeze'],
      [slow, 'unfreeze'],
      [slow, 'freeze'],
      [fast, 'unfreeze'],
    ] as const) {
      const answer = await call(node, token, `/api/svc/models/${verb}`, 'POST', {})
      t.equal(answer.status, 200, verb)
      for (const node of [fast, slow])
        await until(async () => (await frozen(node)) === (verb === 'freeze'))
    }
    const held = async (node: Node) => {
      const bid = await node.bid({ id: crypto.randomUUID(), price: 1.5 })
      return bid.in === bid.out
    }
    for (const [node, hold] of [
      [fast, true],
      [slow, false],
    ] as const) {
      const answer = await call(node, token, '/api/svc/opd/acme/', 'PUT', { hold })
      t.equal(answer.status, 200)
      for (const node of [fast, slow]) await until(async () => (await held(node)) === hold)
    }
  })

  t.test('both are live for the console of each', async () => {
    const token = await fast.login()
    for (const node of [fast, slow])
      await until(async () => {
        const answer = await call(node, token, '/api/svc/live/')
        return ((await answer.json()) as { nodes: unknown[] }).nodes.length === 2
      })
  })
})
