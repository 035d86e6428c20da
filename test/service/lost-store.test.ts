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

async function whole(t: Test, loss: Loss): Promise<Node> {
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

async function refused(t: Test, answer: Response, what: string): Promise<void> {
  t.equal(answer.status, 503, what)
  t.match(answer.headers.get('content-type'), /^application\/problem\+json$/, what)
  t.match(answer.headers.get('retry-after'), /^\d+$/, what)
  t.match(await answer.json(), { status: 503, code: 'store_unavailable' }, what)
}

// Each waits for time limits of its own.
t.jobs = 3
for (const [name, { skip, open }] of Object.entries(losses))
  t.test(name, { skip }, async (t) => {
    const loss = await open()
    const node = await whole(t, loss)
    const ready = async (path: string) => (await fetch(`${node.admin}${path}`)).status
    t.equal((await node.api('/api/svc/ssp/acme/', seat('before'))).status, 201)
    const won = await node.bids(Array.from({ length: underWay + 2 }, (_, n) => ({ id: `b${n}` })))
    const [first, ...others] = won as [Answered, ...Answered[]]
    t.match((await node.notify(notice(first))).body, { status: 'attributed' })
    t.equal(await ready('/readyz/admin'), 200)
    const storeUp = async () => (await node.metrics()).get('bidweir_store_up')
    t.equal(await storeUp(), 1)

    // notices are under way when it happens: each is stored or refused, none is both
    let stored = 0
    const under = others.slice(0, underWay).map(async (each) => {
      const answer = await node.notify(notice(each))
      stored++
      return { each, answer }
    })
    await until(() => stored > 0)
    await loss.lose()
    const answered = await Promise.all(under)
    t.same(
      [...new Set(answered.map(({ answer }) => answer.http))].filter((c) => c !== 200 && c !== 503),
      [],
    )

    const late = others[underWay]!
    const put = { ...seat('before'), method: 'PUT' }
    put.body = JSON.stringify({ dsp_seats: [{ name: 'before', is_active: false }] })
    const hold = { ...put, body: '{"hold":true}' }
    const reading = [
      'ssp/',
      'ssp/acme/',
      'audit/',
      ...(loss.hangs ? [] : ['reports/wins?ssp=acme']),
    ]
    const [win, ghost, created, switched, held, ...read] = await Promise.all([
      node.notify(notice(late)),
      node.notify(
        { bid_id: 'ghost', price: '1' },
        { authorization: `Bearer ${await node.login()}` },
      ),
      node.api('/api/svc/ssp/acme/', seat('lost')),
      node.api('/api/svc/ssp/acme/', put),
      node.api('/api/svc/opd/acme/', hold),
      ...reading.map((path) => node.api(`/api/svc/${path}`)),
    ])
    for (const lost of [win, ghost]) {
      t.equal(lost.http, 503)
      t.match(lost.headers.get('retry-after'), /^\d+$/)
      t.match(lost.headers.get('content-type'), /^application\/problem\+json$/)
      t.match(lost.body, { code: 'store_unavailable', status: 503 })
    }
    await refused(t, created, 'create')
    await refused(t, switched, 'switch')
    await refused(t, held, 'hold')
    for (const [at, answer] of read.entries())
      if (loss.reads) t.equal(answer.status, 200, reading[at]!)
      else await refused(t, answer, reading[at]!)
    if (loss.reads) {
      const namesTheStore = async () => {
        const { nodes } = (await (await node.api('/api/svc/live/')).json()) as LiveSnapshot
        return nodes.some(({ problems }) =>
          problems.some(({ text }) => text.includes('the database does not respond')),
        )
      }
      await until(namesTheStore, { what: 'the console names the store' })
    }
    const form = { client_id: 'public-client', grant_type: 'password', username: 'admin' }
    const password = node.bidweir.password!
    const logIn = () =>
      fetch(`${node.admin}/auth/realms/main/protocol/openid-connect/token`, {
        method: 'POST',
        body: new URLSearchParams({ ...form, password }),
      })
    const token = await logIn()
    t.equal(token.status, 503)
    t.match(token.headers.get('retry-after'), /^\d+$/)
    t.match(await token.json(), { error: 'temporarily_unavailable' })
    t.equal(await ready('/readyz'), 200)
    t.equal(await ready('/readyz/admin'), 503)
    t.equal(await ready('/healthz'), 200)
    await until(async () => (await storeUp()) === 0)
    const bid = await node.bid({ id: 'meanwhile' })
    t.equal(Number(bid.out), bid.price, 'bid traffic goes on, with prices')
    t.match(bid.svcOpd, /^[\w-]+$/, 'and contexts')

    await loss.restore()
    await until(async () => (await ready('/readyz/admin')) === 200)
    await until(async () => (await storeUp()) === 1)
    for (const { each, answer } of answered) {
      const again = await node.notify(notice(each))
      const good = answer.http === 200 ? ['duplicate'] : ['attributed', 'duplicate']
      if (!good.includes(String(again.body['status'])))
        t.fail(`${answer.http}, then ${JSON.stringify(again.body)}`)
    }
    // a database that hung may have committed what was answered 503
    const again = loss.hangs ? /^(attributed|duplicate)$/ : 'attributed'
    t.match((await node.notify(notice(late))).body, { status: again }, 'it comes again')
    t.match((await node.notify(notice(bid))).body, { status: 'attributed' })
    t.equal((await logIn()).status, 200)
    const [sum] = await node.report('wins?ssp=acme')
    t.match(sum, { wins: underWay + 3 })
    const { dsp_seats } = (await (await node.api('/api/svc/ssp/acme/')).json()) as {
      dsp_seats: { name: string; is_active: boolean }[]
    }
    t.match(dsp_seats, [{ name: 'before', is_active: true }], 'what was refused changed nothing')
    t.equal(dsp_seats.length, 1)
    t.equal((await node.api('/api/svc/ssp/acme/', put)).status, 200, 'and works now')
  })
