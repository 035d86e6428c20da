/** Three whole nodes on one PostgreSQL and one Redis: every win counts once, whichever node receives it or is killed. */
import t from 'tap'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import type { Running } from '../../support/process.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier, type Node, startNode, sumOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const key = Buffer.alloc(32, 5).toString('base64url')

t.test('two nodes that know nothing of each other', { skip: postgresAbsent }, async (t) => {
  const supplier = await echoSupplier()
  const postgres = await startPostgres()
  const start = () =>
    serveNode({
      endpoint: supplier.url,
      auth: 'none',
      more: `store: {database: "${postgres.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    })
  const nodes = [await start(), await start()] as const
  t.teardown(async () => {
    for (const node of nodes) await node.stop()
    await Promise.all([supplier.close(), postgres.close()])
  })
  const [one, two] = nodes
  const counted: string[][] = []
  for (let round = 0; round < 10; round++) {
    const bids = await one.bids(Array.from({ length: 5 }, (_, n) => ({ id: `r${round}-${n}` })))
    const answers = bids.map(async ({ id, svcOpd }) => {
      const bare = { bid_id: id, price: '0.9' }
      const full = { ...bare, svc_opd: svcOpd }
      // without its context the second node does not know whose it is
      const sent = [two.notify(bare), one.notify(full), two.notify({ ...bare, ssp: 'acme' })]
      const answers = await Promise.all([...sent, two.notify(full)])
      return answers
        .map(({ body }) => String(body['status']))
        .filter((each) => each !== 'duplicate')
    })
    counted.push(...(await Promise.all(answers)))
  }
  t.equal(counted.length, 50)
  const once = (status: string) =>
    counted.every((each) => each.indexOf(status) === each.lastIndexOf(status))
  t.ok(counted.every((each) => each.includes('attributed')) && once('attributed'))
  t.ok(once('unattributed'), 'what the second node could not place was at most one win')
  const rows = await one.report('discrepancy')
  t.same(
    rows
      .map(({ key, wins, unattributed }) => ({ key, wins, unattributed }))
      // Duplicates without a supplier have a row with neither, depending on which notice came first.
      .filter(
        ({ key, wins, unattributed }) => key !== '' || Number(wins) + Number(unattributed) > 0,
      ),
    [{ key: 'acme', wins: 50, unattributed: 0 }],
    'a win that is reported at the same time with and without its context is one win, and its context counts',
  )
})

t.test(
  'a win that is reported to three nodes is one win',
  { skip: postgresAbsent || redisAbsent },
  async (t) => {
    const supplier = await echoSupplier()
    const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
    const options = {
      endpoint: supplier.url,
      auth: 'none',
      more: `store: {database: "${postgres.url}", redis: "${redis.url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: [
        'id: acme, opd: {enabled: true, holdout: 0}',
        'id: both, notices: both, opd: {enabled: true, holdout: 0}',
      ],
    } as const
    // On an empty database, at the same moment.
    const [started, ...others] = await Promise.all([
      startNode(options),
      serveNode(options),
      serveNode(options),
    ])
    let victim = started
    const nodes: Node<Running>[] = [...others, victim]
    t.teardown(async () => {
      for (const node of nodes) await node.stop()
      await Promise.all([supplier.close(), redis.stop(), postgres.close()])
    })
    const at = (n: number) => nodes[n % nodes.length]!

    /** Sends until it is answered for good: a node that is away or a store that waits is asked again. */
    async function statusOf(pick: () => Node<Running>, params: Record<string, string | undefined>) {
      let status = ''
      await until(async () => {
        const answer = await pick()
          .notify(params)
          .catch(() => null)
        if (answer?.http === 200) status = String(answer.body['status'])
        return status !== ''
      })
      return status
    }

    t.test('fifty notices of one win at once, with and without context, are one win', async (t) => {
      const won = await at(0).bid({ id: 'fifty' })
      await until(() => redis.holds('fifty'))
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, n) =>
          statusOf(() => at(n), {
            bid_id: 'fifty',
            price: '0.9',
            svc_opd: n % 2 === 0 ? won.svcOpd : undefined,
          }),
        ),
      )
      t.equal(answers.filter((status) => status === 'attributed').length, 1)
      t.equal(answers.filter((status) => status === 'duplicate').length, 49)
    })

    t.test('no win is lost or doubled when a node is killed', async (t) => {
      const attributed = new Map<string, number>()
      const one = async (n: number) => {
        const ssp = n % 2 === 0 ? 'acme' : 'both'
        const won = await at(n % 2).bid({ id: `k${n}`, ssp })
        await until(() => redis.holds(won.id))
        const events = ssp === 'both' ? ['win', 'billing'] : ['win']
        await Promise.all(
          [...events, ...events, ...events].map(async (event, nth) => {
            const svc_opd = nth % 2 === 0 ? won.svcOpd : undefined
            const notice = { bid_id: won.id, price: '0.9', event, svc_opd }
            const status = await statusOf(() => at(n + nth), notice)
            const name = `${won.id} ${event}`
            if (status === 'attributed') attributed.set(name, (attributed.get(name) ?? 0) + 1)
          }),
        )
      }
      const count = 40
      let next = 0
      const few = async () => {
        while (next < count) await one(next++)
      }
      const all = Promise.all([few(), few(), few()])
      await until(() => attributed.size > 10)
      await victim.stop('SIGKILL')
      victim = await startNode({ ...options, folder: victim.folder })
      nodes[2] = victim
      await all
      // a win that was on disk when its node died may have been answered to nobody: never twice, and in the ledger
      t.ok([...attributed.values()].every((times) => times === 1))
      for (const node of nodes) {
        const metrics = await node.metrics()
        const received = sumOf(metrics, 'bidweir_impressions_received_total')
        t.equal(received, sumOf(metrics, 'bidweir_impressions_total'))
      }
      const again = await Promise.all(
        Array.from({ length: count }, (_, n) =>
          statusOf(() => at(n), { bid_id: `k${n}`, price: '0.9' }),
        ),
      )
      t.ok(
        again.every((status) => status === 'duplicate'),
        'each of them is counted',
      )
    })
  },
)
