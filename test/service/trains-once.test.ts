/**
 * A win trains the shared model exactly once, at whatever moment its node is killed (CONTRACT 6): after the commit, after the
 * journal was settled, or after the update was sent. Counted is what every node that leads reads: the updates in a real Redis,
 * to which the node has a link that may be lost.
 */
import { randomInt } from 'node:crypto'
import { createClient } from '@redis/client'
import pg from 'pg'
import t, { type Test } from 'tap'
import { readDelta } from '../../opd/learner/snapshot.ts'
import { winAges } from '../../opd/learner/train/update-log.ts'
import { decodeEnvelope } from '../../opd/state/envelope.ts'
import { modelBus } from '../../opd/state/redis-models.ts'
import { postgresAbsent, startPostgres } from '../support/postgres.ts'
import { newFolder } from '../support/process.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'
import { echoSupplier, type Node, startNode, sumOf } from '../support/service-node.ts'
import { tcpProxy } from '../support/tcp-proxy.ts'
import { startLimit, timePasses, until } from '../support/until.ts'

/** Crashes at a moment that is drawn. */
const rounds = Number(process.env['ROUNDS'] ?? 2)
const key = Buffer.alloc(32, 9).toString('base64url')

async function world(t: Test) {
  const [supplier, redis] = await Promise.all([echoSupplier(), startRedis()])
  const link = await tcpProxy(Number(new URL(redis.url).port))
  const client = await createClient({ url: redis.url }).connect()
  const bus = modelBus(client, 'bidweir:', async () => null)
  const nodes: Node[] = []
  t.teardown(async () => {
    await Promise.all(nodes.map((node) => node.stop('SIGKILL')))
    client.destroy()
    await link.close()
    await Promise.all([supplier.close(), redis.stop()])
  })

  /** `isCut`: its link to Redis is the one that may be lost. */
  async function start(folder: string, isCut: boolean, database: string): Promise<Node> {
    const url = isCut ? `redis://127.0.0.1:${link.port}` : redis.url
    const node = await startNode({
      ...{ endpoint: supplier.url, folder },
      more: `store: {database: "${database}", redis: "${url}"}\nopd: {keys: [{id: 1, secret: ${key}}]}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: .01}'],
    })
    nodes.push(node)
    return node
  }

  /** Wins in the updates of all nodes. A node merges each update once, also if it was sent again. */
  async function trained(): Promise<number> {
    const updates = new Map<string, number>()
    for (let [place, next] = ['', '0']; place !== next; ) {
      place = next
      const { deltas, last } = await bus.fetch('revenue', place)
      for (const { bytes } of deltas) {
        const { node, sequence, delta } = decodeEnvelope(Buffer.from(bytes))!
        updates.set(
          `${node} ${sequence}`,
          [...winAges(readDelta(delta)?.rows ?? delta.subarray(0, 0))].length,
        )
      }
      next = last
    }
    return [...updates.values()].reduce((sum, wins) => sum + wins, 0)
  }

  /** Nothing comes after it: a later win was sent. */
  async function isTrainedOnce(t: Test, node: Node, wins: number): Promise<void> {
    const limit = startLimit
    await until(async () => (await trained()) >= wins, { what: `${wins} trained wins`, limit })
    await win(node, `after-${wins}`, 1)
    await until(async () => (await trained()) > wins, { what: 'the win after them' })
    t.equal(await trained(), wins + 1, 'each win has trained once')
  }
  return { link, start, isTrainedOnce }
}

/** Wins, of which each has one bid. */
async function win(node: Node, name: string, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    const { id, out, svcOpd } = await node.bid({ id: `${name}-${n}` })
    const answer = await node.notify({ bid_id: id, price: String(out), svc_opd: svcOpd })
    if (answer.body['status'] !== 'attributed') throw new Error(JSON.stringify(answer.body))
  }
}

t.test(
  'a node is killed before it has sent, before it has settled, and at any moment',
  { skip: postgresAbsent || redisAbsent },
  async (t) => {
    const { link, start, isTrainedOnce } = await world(t)
    const postgres = await startPostgres()
    const client = new pg.Client({ connectionString: postgres.url })
    await client.connect()
    t.teardown(async () => {
      await client.end()
      await postgres.close()
    })
    const isSettled = async () => (await client.query('select from outcomes')).rowCount === 0
    const folder = newFolder()
    let one = await start(folder, true, postgres.url)
    const two = await start(newFolder(), false, postgres.url)
    await win(one, 'sent', 2)
    await until(async () => sumOf(await one.metrics(), 'bidweir_model_deltas_total', 'sent') > 0)
    link.swallow(true)
    await win(one, 'unsent', 3)
    await until(isSettled, { what: 'a journal that was settled' })
    await win(one, 'unsettled', 2)
    await one.stop('SIGKILL')
    link.swallow(false)
    for (let round = 0; round < rounds; round++) {
      one = await start(folder, true, postgres.url)
      await win(one, `round-${round}`, 3)
      const pause = randomInt(600)
      t.comment(`killed ${pause} ms after the last win`)
      await timePasses(pause, 'the moment of the crash is under test')
      await one.stop('SIGKILL')
    }
    // The bids of a node that starts after a crash may be lost, and then their wins do not train it.
    await isTrainedOnce(t, two, 7 + 3 * rounds)
  },
)
