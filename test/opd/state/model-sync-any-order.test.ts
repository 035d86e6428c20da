/**
 * Three nodes through any sequence of steps: each delta counts once, and never in another epoch. In memory with buses
 * that misbehave, and on a real Redis.
 */
import { readdirSync } from 'node:fs'
import { createClient } from '@redis/client'
import * as fc from 'fast-check'
import t from 'tap'
import type { ModelBus } from '../../../opd/state/model-bus.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { RedisState } from '../../../opd/state/redis.ts'
import { snapshots } from '../../../opd/state/snapshots.ts'
import { type Operator, operatorOf } from '../../support/model-control.ts'
import {
  isSum,
  learn,
  log,
  memoryBus,
  modelManagerOf,
  roundClock,
  sumOf,
} from '../../support/model-sync.ts'
import { newFolder } from '../../support/process.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { until } from '../../support/until.ts'

type Step =
  | { do: 'learn' | 'round' | 'save' | 'crash' | 'stop'; node: number }
  | { do: 'rollback'; node: number }

const steps = (rollbacks: boolean) =>
  fc.array(
    fc.record({
      do: fc.constantFrom<Step['do'][]>(
        'learn',
        'learn',
        'learn',
        'round',
        'round',
        'save',
        'crash',
        'stop',
        ...(rollbacks ? (['rollback'] as const) : []),
      ),
      node: fc.integer({ min: 0, max: 2 }),
    }) as fc.Arbitrary<Step>,
    { maxLength: 26 },
  )

/** Three nodes with disks of their own on one bus, through any sequence of steps; what they end with. */
async function world(
  operator: Operator,
  all: Step[],
  busOf: () => ModelBus,
  /** The leases of a node that crashed end. */
  crashed: () => Promise<unknown> = async () => undefined,
) {
  await operator.clear()
  let now = 1e12
  let amount = 1
  let learned = 0
  const make = async (dir: string) => {
    const modelManager = modelManagerOf(dir, () => now)
    await operator.execute(modelManager)
    const options = { modelManager, bus: busOf(), log, now: roundClock(), timers: false }
    return { dir, modelManager, modelSync: new ModelSync(options) }
  }
  const nodes = await Promise.all([0, 1, 2].map(() => make(newFolder())))
  for (const step of all) {
    now += 10
    const node = nodes[step.node]!
    if (step.do === 'learn') {
      learn(node.modelManager, amount)
      learned += amount
      amount *= 4
    } else if (step.do === 'round') {
      await operator.execute(node.modelManager)
      await node.modelSync.round()
    } else if (step.do === 'save') await node.modelManager.save()
    else if (step.do === 'rollback') {
      // A node that has saved once has no earlier snapshot.
      const files = snapshots(readdirSync(node.dir), 'revenue')
      if (files.length > 1) await operator.rollback(node.dir)
    } else {
      if (step.do === 'stop') {
        await node.modelSync.close()
        await node.modelManager.close()
      } else await crashed()
      nodes[step.node] = await make(node.dir)
    }
  }
  // A node that has crashed may still send what it had: the others need another round.
  const agree = () => new Set(nodes.map(({ modelManager }) => sumOf(modelManager))).size === 1
  for (let round = 0; round < 4 || (round < 40 && !agree()); round++)
    for (const { modelManager, modelSync } of nodes) {
      await operator.execute(modelManager)
      await modelSync.round()
    }
  return { nodes, learned }
}

/** Amounts are powers of four: a digit 1 says that one is in the sum, 2 or 3 that it counts twice. */
const onceEach = (sum: number) => /^[01]+$/.test(sum.toString(4))

t.test('three nodes through anything end with the same model, nothing in it twice', async (t) => {
  const operator = await operatorOf(t, isSum)
  await fc.assert(
    fc.asyncProperty(steps(false), async (all) => {
      const bus = memoryBus()
      const { nodes, learned } = await world(operator, all, () => bus)
      const sums = nodes.map(({ modelManager }) => sumOf(modelManager))
      const crashed = all.some((step) => step.do === 'crash')
      return new Set(sums).size === 1 && (crashed ? onceEach(sums[0]!) : sums[0] === learned)
    }),
    { numRuns: 25 },
  )
})

t.test('a bus that repeats and reorders changes nothing', async (t) => {
  const operator = await operatorOf(t, isSum)
  await fc.assert(
    fc.asyncProperty(steps(false), fc.infiniteStream(fc.nat(3)), async (all, chaos) => {
      const bus = memoryBus((rows) => {
        const repeated = rows.flatMap((row) => [row, ...(chaos.next().value === 0 ? [row] : [])])
        return chaos.next().value === 1 ? repeated.reverse() : repeated
      })
      const { nodes, learned } = await world(
        operator,
        all.filter((step) => step.do !== 'crash'),
        () => bus,
      )
      return nodes.every(({ modelManager }) => sumOf(modelManager) === learned)
    }),
    { numRuns: 20 },
  )
})

t.test('rollbacks between: all nodes end in one epoch with one model', async (t) => {
  const operator = await operatorOf(t, isSum)
  await fc.assert(
    fc.asyncProperty(steps(true), async (all) => {
      const bus = memoryBus()
      const { nodes } = await world(operator, all, () => bus)
      const sums = nodes.map(({ modelManager }) => sumOf(modelManager))
      const epochs = nodes.map(({ modelManager }) => modelManager.control.epochs.revenue)
      return new Set(epochs).size === 1 && new Set(sums).size === 1 && onceEach(sums[0]!)
    }),
    { numRuns: 25 },
  )
})

t.test(
  'a stream that keeps few deltas: what a node missed comes with the shared model',
  async (t) => {
    const operator = await operatorOf(t, isSum)
    let taken = 0
    await fc.assert(
      fc.asyncProperty(steps(true), async (all) => {
        const bus = memoryBus((rows) => rows.slice(-6))
        const { nodes } = await world(operator, all, () => bus)
        const sums = nodes.map(({ modelManager }) => sumOf(modelManager))
        for (const { modelSync } of nodes) taken += modelSync.counts.taken
        return new Set(sums).size === 1 && onceEach(sums[0]!)
      }),
      { numRuns: 40 },
    )
    t.ok(taken > 0)
  },
)

t.test('the same on a real Redis', { skip: redisAbsent }, async (t) => {
  const server = await startRedis()
  t.teardown(() => server.stop())
  const cleaner = await createClient({ url: server.url }).connect()
  t.teardown(() => cleaner.destroy())
  const { url } = server
  const operator = await operatorOf(t, isSum)
  const open = () =>
    new RedisState({ url, location: 'us', bidTtl: () => 60_000, log, onNodes() {} })
  await fc.assert(
    fc.asyncProperty(steps(true), async (all) => {
      await cleaner.flushAll()
      const clients = [open(), open(), open()]
      await until(() => clients.every(({ connected }) => connected))
      let next = 0
      const endLeases = async () => {
        for (const key of await cleaner.keys('*lease')) await cleaner.del(key)
      }
      const { nodes } = await world(operator, all, () => clients[next++ % 3]!.models, endLeases)
      const sums = nodes.map(({ modelManager }) => sumOf(modelManager))
      await Promise.all(clients.map((client) => client.close()))
      return new Set(sums).size === 1 && onceEach(sums[0]!)
    }),
    { numRuns: 6 },
  )
})
