/**
 * Whole nodes on one PostgreSQL and one Redis, each with links of its own, while faults that are drawn from `SEED` happen to
 * the databases, the links and the nodes. A platform sends each notice until it is acknowledged, some of them twice.
 * Afterwards each win is one attributed row, its margin is exact, and the report has the same number of wins (CONTRACT 6).
 */
import pg from 'pg'
import t from 'tap'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'
import { source } from '../support/random.ts'
import { ask, redisAbsent, startRedis } from '../support/redis.ts'
import { type Answered, echoSupplier, type Node, startNode } from '../support/service-node.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { startLimit, timePasses, until } from '../support/until.ts'

const seed = Number(process.env['SEED'] ?? 1)
const faultCount = Number(process.env['FAULTS'] ?? 6)
const key = Buffer.alloc(32, 9).toString('base64url')
const nodeCount = 2

interface Win extends Answered {
  /** Events that its supplier reports; the last one has the margin. */
  events: readonly string[]
  cleared: string
}

interface Row {
  bid_id: string
  event: string
  status: string
  margin: string | null
}

/** What a fault happens to. */
const subjectOf = (fault: string) => /PostgreSQL|Redis|node/.exec(fault)![0]

/** In millionths. */
const micros = (amount: string): number => Math.round(Number(amount) * 1e6)

t.test('drawn faults', { skip: postgresAbsent || redisAbsent }, async (t) => {
  t.comment(`SEED=${seed} FAULTS=${faultCount}`)
  const roll = source(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(roll() * list.length)]!
  const supplier = await echoSupplier()
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const ports = {
    redis: Number(new URL(redis.url).port),
    postgres: Number(new URL(postgres.url).port),
  }
  const places = await Promise.all(
    Array.from({ length: nodeCount }, async () => ({
      folder: newFolder(),
      toRedis: await tcpProxy(ports.redis),
      toPostgres: await tcpProxy(ports.postgres),
    })),
  )
  const start = ({ folder, toRedis, toPostgres }: (typeof places)[number]) => {
    const database = postgres.url.replace(`:${ports.postgres}`, `:${toPostgres.port}`)
    return startNode({
      ...{ endpoint: supplier.url, auth: 'none', folder },
      more: `store: {database: "${database}", redis: "redis://127.0.0.1:${toRedis.port}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: [
        'id: acme, opd: {enabled: true, holdout: 0.1}',
        'id: both, notices: both, opd: {enabled: true, holdout: 0}',
      ],
    })
  }
  /** null: it is not running. */
  const nodes: (Node | null)[] = []
  for (const place of places) nodes.push(await start(place))
  t.teardown(async () => {
    await Promise.all(nodes.map((node) => node?.stop('SIGKILL')))
    await Promise.all(
      places.flatMap(({ toRedis, toPostgres }) => [toRedis.close(), toPostgres.close()]),
    )
    await Promise.all([supplier.close(), redis.stop(), postgres.close()])
  })

  const query = async <R extends pg.QueryResultRow>(...statements: string[]): Promise<R[]> => {
    const client = new pg.Client({ connectionString: postgres.url })
    // It is also ended by the faults.
    client.on('error', () => undefined)
    await client.connect()
    try {
      let rows: R[] = []
      for (const statement of statements) rows = (await client.query<R>(statement)).rows
      return rows
    } finally {
      await client.end()
    }
  }
  const lasts = () => timePasses(300 + 3000 * roll(), 'a fault lasts')
  async function startAgain(index: number): Promise<void> {
    // A node does not start without its database.
    await until(async () => {
      nodes[index] = await start(places[index]!).catch(() => null)
      return nodes[index] !== null
    })
  }
  const readOnly = 'alter system set default_transaction_read_only = on'
  const writable = 'alter system reset default_transaction_read_only'
  const reload = 'select pg_reload_conf()'
  const terminate = `select pg_terminate_backend(pid) from pg_stat_activity
    where pid <> pg_backend_pid() and backend_type = 'client backend'`
  const faults: Record<string, (index: number) => Promise<unknown>> = {
    'Redis is killed': async () => {
      await redis.stop()
      await lasts()
      await redis.start()
    },
    'Redis hangs': async () => {
      redis.hang()
      await lasts()
      redis.resume()
    },
    'Redis loses its data': () => ask(ports.redis, 'FLUSHALL'),
    'Redis is full': async () => {
      await ask(ports.redis, 'CONFIG SET maxmemory 1')
      await lasts()
      await ask(ports.redis, 'CONFIG SET maxmemory 0')
    },
    'Redis becomes a replica': async () => {
      await ask(ports.redis, 'REPLICAOF 127.0.0.1 1')
      await lasts()
      await ask(ports.redis, 'REPLICAOF NO ONE')
    },
    'the link to Redis is lost': async (index) => {
      places[index]!.toRedis.swallow(true)
      await lasts()
      places[index]!.toRedis.swallow(false)
    },
    'the link to PostgreSQL is lost': async (index) => {
      places[index]!.toPostgres.swallow(true)
      await lasts()
      places[index]!.toPostgres.swallow(false)
    },
    'answers of PostgreSQL are lost': async (index) => {
      places[index]!.toPostgres.deafen(true)
      await lasts()
      places[index]!.toPostgres.deafen(false)
    },
    'PostgreSQL hangs': async () => {
      postgres.freeze(true)
      await lasts()
      postgres.freeze(false)
    },
    'PostgreSQL is killed': async () => {
      await postgres.stop()
      await lasts()
      await postgres.start()
    },
    'PostgreSQL ends its connections': () => query(terminate),
    'PostgreSQL is read-only': async () => {
      await query(readOnly, reload)
      await lasts()
      await query('set default_transaction_read_only = off', writable, reload)
    },
    'the ledger of PostgreSQL is locked': () =>
      query('begin', 'lock table ledger_days', `select pg_sleep(${(3 * roll()).toFixed(2)})`),
    'a node is killed': async (index) => {
      const node = nodes[index]!
      nodes[index] = null
      await node.stop('SIGKILL')
      await startAgain(index)
    },
    'a node is stopped in order': async (index) => {
      const node = nodes[index]!
      nodes[index] = null
      t.equal(await node.stop('SIGTERM'), 0)
      await startAgain(index)
    },
    'a node does not run for a while': async (index) => {
      const { child } = nodes[index]!.bidweir
      child.kill('SIGSTOP')
      await lasts()
      child.kill('SIGCONT')
    },
  }

  const won: Win[] = []
  const notices: { win: Win; event: string; bare: boolean }[] = []
  let isCalm = false
  let areAllWon = false
  let bidCount = 0
  async function auctions(): Promise<void> {
    await until(
      async () => {
        const ssp = roll() < 0.25 ? 'both' : 'acme'
        const asked = Array.from({ length: 10 }, () => {
          return { id: `b${bidCount++}`, ssp, price: Number((0.5 + 4 * roll()).toFixed(4)) }
        })
        // A node that is killed or does not run answers nobody: that auction has no bids.
        const answered = await Promise.race([
          Promise.resolve(pick(nodes)?.bids(asked)).catch(() => undefined),
          timePasses(3000, 'a node may not run'),
        ])
        for (const bid of answered ?? []) {
          const events = ssp === 'both' ? ['win', 'billing'] : ['win']
          const win = {
            ...bid,
            events,
            cleared: (Number(bid.out) * (0.3 + 0.7 * roll())).toFixed(4),
          }
          won.push(win)
          for (const event of events)
            for (let again = 0; again < (roll() < 0.3 ? 2 : 1); again++)
              notices.push({ win, event, bare: roll() < 0.2 })
        }
        return isCalm
      },
      { what: 'the end of the faults', limit: startLimit },
    )
  }
  const answers: Record<string, number> = {}
  const refused: number[] = []
  async function send({ win, event, bare }: (typeof notices)[number]): Promise<void> {
    const parameters = { bid_id: win.id, price: win.cleared, event }
    const sent = bare ? parameters : { ...parameters, svc_opd: win.svcOpd }
    await until(
      async () => {
        const answer = await pick(nodes)
          ?.notify(sent)
          .catch(() => undefined)
        if (answer === undefined || answer.http >= 500) return false
        if (answer.http !== 200) refused.push(answer.http)
        const status = String(answer.body['status'])
        answers[status] = (answers[status] ?? 0) + 1
        return true
      },
      { what: `an acknowledged ${event} of ${win.id}`, limit: startLimit },
    )
    // Without a context it may be unattributed, if Redis lost the bid.
    if (bare) notices.push({ win, event, bare: false })
  }
  const anyNotice = () => notices.splice(Math.floor(roll() * notices.length), 1)[0]
  async function report(): Promise<void> {
    await until(
      async () => {
        for (let notice = anyNotice(); notice !== undefined; notice = anyNotice())
          await send(notice)
        return areAllWon
      },
      { what: 'the end of the notices', limit: startLimit },
    )
  }
  const bidders = Promise.all([auctions(), auctions()])
  const reporters = Promise.all(Array.from({ length: 32 }, report))
  for (let n = 0; n < faultCount; n++) {
    const index = Math.floor(roll() * nodeCount)
    const [one, other] = [pick(Object.keys(faults)), pick(Object.keys(faults))]
    // Two faults of one thing would end each other.
    const drawn = subjectOf(one) === subjectOf(other) ? [one] : [one, other]
    t.comment(drawn.join(', and '))
    await Promise.all(drawn.map((name) => faults[name]!(index)))
  }
  isCalm = true
  await bidders
  areAllWon = true
  await reporters
  t.comment(`${won.length} wins, ${JSON.stringify(answers)}`)

  t.same(refused, [], 'no notice is refused for what it says')
  const due = won.flatMap(({ id, events }) => events.map((event) => `${event} ${id}`))
  const attributed = `select bid_id, event, status, margin::text from ledger_days where status = 'attributed'`
  let rows: Row[] = []
  await until(
    async () => {
      rows = await query<Row>(attributed)
      return rows.length >= due.length
    },
    { what: 'a row for each win' },
  )
  t.same(rows.map(({ event, bid_id }) => `${event} ${bid_id}`).toSorted(), due.toSorted())
  const margins = new Map(rows.map(({ event, bid_id, margin }) => [`${event} ${bid_id}`, margin]))
  const wrong = won.filter(({ id, events, in: before, cleared }) => {
    return (
      micros(margins.get(`${events.at(-1)} ${id}`) ?? 'none') !== micros(before) - micros(cleared)
    )
  })
  t.same(wrong, [], 'margins, to the last digit')
  await until(
    async () => {
      const report = await nodes[0]!.report('wins')
      return report.reduce((sum, { wins }) => sum + Number(wins), 0) === won.length
    },
    { what: `a report with ${won.length} wins` },
  )
})
