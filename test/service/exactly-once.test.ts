/**
 * Three whole nodes on one PostgreSQL and one Redis. Notices arrive in any order and at any node, 30 % of them again,
 * with and without context, while Redis is killed, a node is killed and another one is cut off from Redis. Afterwards
 * each win is one row and the sums are exact (CONTRACT 6); so is each billing notice of a supplier that sends both. `NOTICES=100000` sends more.
 */
import pg from 'pg'
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { type ServedNode as Node, serveNode } from '../support/served-node.ts'
import { echoSupplier, startNode, sumOf } from '../support/service-node.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { timePasses, until } from '../support/until.ts'

const notices = Number(process.env['NOTICES'] ?? 2500)
const wins = Math.round(notices / 1.3)
/** Nodes commit the wins that arrive together, so more callers are quicker; each waits for one answer at a time. */
const callers = 96
const bidsOfAuction = 50
const key = Buffer.alloc(32, 9).toString('base64url')

/** Deterministic, so that a failure can be seen again. */
function dice(seed: number) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return state / 0x80000000
  }
}

interface Win {
  id: string
  svcOpd: string
  /** The events that its supplier reports. */
  events: readonly string[]
  in: string
  cleared: string
  /** A notice with context was acknowledged. */
  proved: boolean
}

/** Exact, in millionths. */
function micros(text: string): bigint {
  const [integer = '0', digits = ''] = text.replace('-', '').split('.')
  const value = BigInt(integer + digits.padEnd(6, '0').slice(0, 6))
  return text.startsWith('-') ? -value : value
}

t.test('exactly once', { skip: postgresAbsent || redisAbsent }, async (t) => {
  const roll = dice(11)
  const supplier = await echoSupplier()
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const link = await tcpProxy(Number(new URL(redis.url).port))
  const folders = [newFolder(), newFolder(), newFolder()]
  /** The one that is killed has a process of its own. */
  const start = (index: number) =>
    (index === 1 ? startNode : serveNode)({
      endpoint: supplier.url,
      auth: 'none',
      folder: folders[index]!,
      more: `store: {database: "${postgres.url}", redis: "${
        index === 2 ? `redis://127.0.0.1:${link.port}` : redis.url
      }"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: [
        'id: acme, opd: {enabled: true, holdout: 0}',
        'id: both, notices: both, opd: {enabled: true, holdout: 0}',
      ],
    })
  const nodes: Node[] = []
  for (const index of folders.keys()) nodes.push(await start(index))
  t.teardown(async () => {
    await Promise.all(nodes.map((node) => node.stop('SIGKILL')))
    await Promise.all([supplier.close(), link.close(), redis.stop(), postgres.close()])
  })

  const won: Win[] = []
  let auctionCount = 0
  while (won.length < wins) {
    const ssp = auctionCount++ % 4 === 0 ? 'both' : 'acme'
    const events = ssp === 'both' ? ['win', 'billing'] : ['win']
    const auctions = nodes.map((node, index) => ({
      node,
      asked: Array.from({ length: bidsOfAuction }, (_, n) => ({
        id: `b${won.length + index * bidsOfAuction + n}`,
        ssp,
        price: Number((0.5 + 4 * roll()).toFixed(4)),
      })),
    }))
    const answers = await Promise.all(auctions.map(({ node, asked }) => node.bids(asked)))
    for (const { id, svcOpd, in: before, out } of answers.flat())
      won.push({
        ...{ id, svcOpd, events, in: before, proved: false },
        cleared: (Number(out) * (0.3 + 0.7 * roll())).toFixed(4),
      })
  }
  const once = won.flatMap((win) => win.events.map((event) => ({ win, event })))
  const again = Array.from({ length: Math.round(once.length * 0.3) }, () => {
    return once[Math.floor(roll() * once.length)]!
  })
  const events = [...once, ...again].map((event) => ({ ...event, context: roll() < 0.5 }))
  for (let index = events.length - 1; index > 0; index--) {
    const other = Math.floor(roll() * (index + 1))
    ;[events[index], events[other]] = [events[other]!, events[index]!]
  }

  /** What happens when this part of the notices has been sent. */
  const faults: [number, () => Promise<unknown>][] = [
    [0.2, () => redis.stop()],
    [
      0.4,
      async () => {
        await redis.start()
        // Redis is empty. What only the node that is killed next knows must be in it again by then.
        await until(
          async () => {
            const all = await Promise.all(nodes.map((node) => node.metrics()))
            return all.every(
              (metrics) =>
                sumOf(metrics, 'bidweir_redis_rewritten_total') > 0 &&
                sumOf(metrics, 'bidweir_redis_bids_complete') === 1,
            )
          },
          { what: 'every node has written its bids again' },
        )
      },
    ],
    [
      0.5,
      async () => {
        await nodes[1]!.stop('SIGKILL')
        nodes[1] = await start(1)
      },
    ],
    [0.6, async () => link.swallow(true)],
    [0.8, async () => link.swallow(false)],
  ]
  let happening: Promise<unknown> = Promise.resolve()
  const due = (count: number) => faults[0] !== undefined && count >= faults[0][0] * events.length
  const answers: Record<string, number> = {}
  let next = 0
  let sent = 0
  async function nextEvent() {
    // Each state has its part of the notices, however long it takes to come about.
    if (due(next)) await happening
    return events[next++]
  }
  async function caller(): Promise<void> {
    for (let event = await nextEvent(); event !== undefined; event = await nextEvent()) {
      const { win, context } = event
      const query = { bid_id: win.id, price: win.cleared, event: event.event }
      for (let index = next % nodes.length; ; index = (index + 1) % nodes.length) {
        const given = context ? { ...query, svc_opd: win.svcOpd } : query
        const answer = await nodes[index]!.notify(given).catch(() => null)
        if (answer?.http === 200) {
          const status = String(answer.body['status'])
          answers[status] = (answers[status] ?? 0) + 1
          break
        }
        if (answer !== null && answer.http < 500) t.fail(`${answer.http}`)
        await timePasses(20, 'a platform sends again later')
      }
      if (context && event.event === 'win') win.proved = true
      sent++
      if (due(sent)) happening = happening.then(faults.shift()![1])
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  await happening
  t.same(faults, [], 'all faults have happened')

  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  t.teardown(() => client.end())
  // Bare notices that came while Redis was away are attributed afterwards, by the nodes that know their bids.
  const unattributed = `select count(*)::int as n from ledger_days where status = 'unattributed'`
  await until(
    async () => (await client.query<{ n: number }>(unattributed)).rows[0]!.n <= won.length / 100,
    { what: 'at most 1 % of the wins is unattributed' },
  )
  const { rows: all } = await client.query<{
    bid_id: string
    event: string
    status: string
    cleared: string
    margin: string | null
  }>('select bid_id, event, status, cleared::text, margin::text from ledger_days')
  const rows = all.filter(({ event }) => event === 'win')
  t.equal(rows.length, won.length, 'one row for each win')
  const byBid = new Map(rows.map((row) => [row.bid_id, row]))
  t.equal(byBid.size, won.length, 'each win has one')
  const billed = all.filter(({ event }) => event === 'billing').map(({ bid_id }) => bid_id)
  t.same(
    billed.toSorted(),
    once.flatMap(({ win, event }) => (event === 'billing' ? [win.id] : [])).toSorted(),
    'one row for each billing notice',
  )
  for (const node of nodes) {
    const metrics = await node.metrics()
    const received = sumOf(metrics, 'bidweir_impressions_received_total')
    t.equal(received, sumOf(metrics, 'bidweir_impressions_total'), 'each notice has a status')
  }
  const sum = (values: Iterable<bigint>) => [...values].reduce((one, other) => one + other, 0n)
  const attributed = rows.filter(({ status }) => status === 'attributed')
  // Of a supplier that sends both the billing notice has the margin.
  const paid = all.filter(({ margin }) => margin !== null)
  const placed = new Set(
    all.flatMap(({ bid_id, event, status }) =>
      status === 'attributed' ? [`${event} ${bid_id}`] : [],
    ),
  )
  t.equal(
    sum(rows.map(({ cleared }) => micros(cleared))),
    sum(won.map(({ cleared }) => micros(cleared))),
    'cleared prices, to the last digit',
  )
  t.equal(
    sum(paid.map(({ margin }) => micros(margin!))),
    sum(
      won
        .filter(({ id, events }) => placed.has(`${events.at(-1)} ${id}`))
        .map((win) => micros(win.in) - micros(win.cleared)),
    ),
    'margins, to the last digit',
  )
  const lost = won.filter(({ id, proved }) => proved && byBid.get(id)?.status !== 'attributed')
  t.same(
    lost.map(({ id }) => id),
    [],
    'no win is unattributed that a context proved',
  )
  t.comment(`${JSON.stringify(answers)}, ${rows.length - attributed.length} rows unattributed`)
})
