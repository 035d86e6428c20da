/**
 * The store is lost while the service runs: a PostgreSQL that is stopped, a disk on which nothing can be written.
 * Callers that need it get 503 with Retry-After; bids, and what was acknowledged, are not affected.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import t, { type Test } from 'tap'
import type { LiveSnapshot } from '../../admin/fleet/live-schema.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { type ServedNode as Node, serveNode } from '../support/served-node.ts'
import { type Answered, echoSupplier, startNode } from '../support/service-node.ts'
import { until } from '../support/until.ts'

const key = Buffer.alloc(32, 7).toString('base64url')
/** Notices that are being stored when the store is lost. */
const underWay = 80

interface Loss {
  start(options: Parameters<typeof serveNode>[0]): Promise<Node>
  /** More lines of the configuration. */
  more: string
  lose(): Promise<void>
  restore(): Promise<void>
  close(): Promise<void>
  /** Calls that still can be answered, since they only read. */
  reads: boolean
  /** Nothing says that it is lost: a report may wait for a minute. */
  hangs?: boolean
}

/**
 * No file of these processes may grow beyond its first byte: what a full disk says to a write, without root and without
 * a disk.
 */
const limit = (pids: Iterable<number>, bytes: string) => {
  for (const pid of pids)
    execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`])
}

const losses: Record<string, { skip: string | false; open: () => Promise<Loss> }> = {
  'a full disk under SQLite': {
    skip: spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit not found',
    async open() {
      const pids = new Set<number>()
      return {
        async start(options) {
          const node = await startNode(options)
          pids.add(node.bidweir.child.pid!)
          return node
        },
        more: '',
        lose: async () => limit(pids, '1'),
        restore: async () => limit(pids, 'unlimited'),
        close: async () => {},
        reads: true,
      }
    },
  },
  'a PostgreSQL that is stopped': {
    skip: postgresAbsent,
    async open() {
      const database = await startPostgres()
      return {
        start: serveNode,
        more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
        lose: () => database.stop(),
        restore: () => database.start(),
        close: () => database.close(),
        reads: false,
      }
    },
  },
  'a PostgreSQL that hangs': {
    skip: postgresAbsent,
    async open() {
      const database = await startPostgres()
      return {
        start: serveNode,
        more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
        lose: async () => database.freeze(true),
        restore: async () => database.freeze(false),
        close: () => database.close(),
        reads: false,
        hangs: true,
      }
    },
  },
}

async function startComplete(t: Test, loss: Loss): Promise<Node> {
  const supplier = await echoSupplier()
  const suppliers = ['id: acme, opd: {enabled: true, holdout: 0}']
  const node = await loss.start({ suppliers, endpoint: supplier.url, more: loss.more })
  void node.bidweir.exited.then((code) => {
    if (code !== 0) t.comment(`the service ended: ${code} ${node.bidweir.stderr()}`)
  })
  t.teardown(async () => {
    await node.stop()
    await supplier.close()
    await loss.close()
  })
  return node
}

const seat = (name: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    dsp_seats: [{ name, name_external: name, is_active: true, qps: [] }],
    datacenters: [],
  }),
})

const notice = ({ id, price, svcOpd }: Answered) => ({
  bid_id: id,
  price: String(price),
  svc_opd: svcOpd,
})

/** A call of the API that the lost store refuses. */
async function refusesCall(t: Test, answer: Response, what: string): Promise<void> {
  t.equal(answer.status, 503, what)
  t.match(answer.headers.get('content-type'), /^application\/problem\+json$/, what)
  t.match(answer.headers.get('retry-after'), /^\d+$/, what)
  t.match(await answer.json(), { status: 503, code: 'store_unavailable' }, what)
}

/** A notice that the lost store refuses. */
function refusesNotice(t: Test, answer: Awaited<ReturnType<Node['notify']>>): void {
  t.equal(answer.http, 503)
  t.match(answer.headers.get('retry-after'), /^\d+$/)
  t.match(answer.headers.get('content-type'), /^application\/problem\+json$/)
  t.match(answer.body, { code: 'store_unavailable', status: 503 })
}

const ready = async (node: Node, path: string) => (await fetch(`${node.admin}${path}`)).status
const storeUp = async (node: Node) => (await node.metrics()).get('bidweir_store_up')

function logIn(node: Node): Promise<Response> {
  const form = { client_id: 'public-client', grant_type: 'password', username: 'admin' }
  return fetch(`${node.admin}/auth/realms/main/protocol/openid-connect/token`, {
    method: 'POST',
    body: new URLSearchParams({ ...form, password: node.bidweir.password! }),
  })
}

const switchSeat = {
  ...seat('before'),
  method: 'PUT',
  body: JSON.stringify({ dsp_seats: [{ name: 'before', is_active: false }] }),
}
const setHold = { ...switchSeat, body: '{"hold":true}' }

interface Notified {
  entry: Answered
  answer: Awaited<ReturnType<Node['notify']>>
}

/** Sends notices, and loses the store as soon as the first of them is stored. */
async function loseMeanwhile(
  node: Node,
  loss: Loss,
  notices: readonly Answered[],
): Promise<Notified[]> {
  let stored = 0
  const sent = notices.map(async (entry) => {
    const answer = await node.notify(notice(entry))
    stored++
    return { entry, answer }
  })
  await until(() => stored > 0)
  await loss.lose()
  return Promise.all(sent)
}

async function testCalls(t: Test, node: Node, { reads, hangs }: Loss): Promise<void> {
  const reading = ['ssp/', 'ssp/acme/', 'audit/', ...(hangs ? [] : ['reports/wins?ssp=acme'])]
  const [created, switched, held, ...read] = await Promise.all([
    node.api('/api/svc/ssp/acme/', seat('lost')),
    node.api('/api/svc/ssp/acme/', switchSeat),
    node.api('/api/svc/opd/acme/', setHold),
    ...reading.map((path) => node.api(`/api/svc/${path}`)),
  ])
  await refusesCall(t, created, 'create')
  await refusesCall(t, switched, 'switch')
  await refusesCall(t, held, 'hold')
  for (const [index, answer] of read.entries())
    if (reads) t.equal(answer.status, 200, reading[index]!)
    else await refusesCall(t, answer, reading[index]!)
}

async function namesTheStore(node: Node): Promise<boolean> {
  const { nodes } = (await (await node.api('/api/svc/live/')).json()) as LiveSnapshot
  return nodes.some(({ problems }) =>
    problems.some(({ text }) => text.includes('the database does not respond')),
  )
}

// Each waits for time limits of its own.
t.jobs = 3
for (const [name, { skip, open }] of Object.entries(losses))
  t.test(name, { skip }, async (t) => {
    const loss = await open()
    const node = await startComplete(t, loss)
    t.equal((await node.api('/api/svc/ssp/acme/', seat('before'))).status, 201)
    const won = await node.bids(Array.from({ length: underWay + 2 }, (_, n) => ({ id: `b${n}` })))
    const [first, late, ...others] = won as [Answered, Answered, ...Answered[]]
    t.match((await node.notify(notice(first))).body, { status: 'attributed' })
    t.equal(await ready(node, '/readyz/admin'), 200)
    t.equal(await storeUp(node), 1)
    const notified = await loseMeanwhile(node, loss, others)

    await t.test('each notice under way is stored, or refused with 503', async (t) => {
      const statuses = new Set(notified.map(({ answer }) => answer.http))
      t.same(
        [...statuses].filter((status) => status !== 200 && status !== 503),
        [],
      )
    })

    await t.test('notices that arrive meanwhile are refused with 503', async (t) => {
      const authorization = `Bearer ${await node.login()}`
      refusesNotice(t, await node.notify(notice(late)))
      refusesNotice(t, await node.notify({ bid_id: 'ghost', price: '1' }, { authorization }))
    })

    await t.test('calls of the API that need the store are refused with 503', (t) =>
      testCalls(t, node, loss),
    )

    if (loss.reads)
      await t.test('the console names the store', async (t) => {
        await t.resolves(until(() => namesTheStore(node), { what: 'the console names the store' }))
      })

    await t.test('a log-in is refused with temporarily_unavailable', async (t) => {
      const token = await logIn(node)
      t.equal(token.status, 503)
      t.match(token.headers.get('retry-after'), /^\d+$/)
      t.match(await token.json(), { error: 'temporarily_unavailable' })
    })

    let meanwhile!: Answered
    await t.test('bid traffic goes on, with prices and contexts', async (t) => {
      t.equal(await ready(node, '/readyz'), 200)
      t.equal(await ready(node, '/readyz/admin'), 503)
      t.equal(await ready(node, '/healthz'), 200)
      await until(async () => (await storeUp(node)) === 0)
      meanwhile = await node.bid({ id: 'meanwhile' })
      t.equal(Number(meanwhile.out), meanwhile.price)
      t.match(meanwhile.svcOpd, /^[\w-]+$/)
    })

    await loss.restore()
    await until(async () => (await ready(node, '/readyz/admin')) === 200)
    await until(async () => (await storeUp(node)) === 1)

    await t.test('each notice that is sent again is one win', async (t) => {
      for (const { entry, answer } of notified) {
        const again = await node.notify(notice(entry))
        const good = answer.http === 200 ? ['duplicate'] : ['attributed', 'duplicate']
        if (!good.includes(String(again.body['status'])))
          t.fail(`${answer.http}, then ${JSON.stringify(again.body)}`)
      }
      // a database that hung may have committed what was answered 503
      const status = loss.hangs ? /^(attributed|duplicate)$/ : 'attributed'
      t.match((await node.notify(notice(late))).body, { status })
      t.match((await node.notify(notice(meanwhile))).body, { status: 'attributed' })
      const [sum] = await node.report('wins?ssp=acme')
      t.match(sum, { wins: underWay + 3 })
    })

    await t.test('what was refused has changed nothing, and is accepted now', async (t) => {
      t.equal((await logIn(node)).status, 200)
      const { dsp_seats } = (await (await node.api('/api/svc/ssp/acme/')).json()) as {
        dsp_seats: { name: string; is_active: boolean }[]
      }
      t.match(dsp_seats, [{ name: 'before', is_active: true }])
      t.equal(dsp_seats.length, 1)
      t.equal((await node.api('/api/svc/ssp/acme/', switchSeat)).status, 200)
    })
  })
