/** Nodes of several processes on one Redis: one model, also while Redis is away. */
import t, { type Test } from 'tap'
import { localModels } from '../../../opd/state/local-models.ts'
import type { ModelBus } from '../../../opd/state/model-bus.ts'
import type { ModelManager } from '../../../opd/state/model-manager.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { relayedModels } from '../../../opd/state/relayed-models.ts'
import {
  learn,
  log,
  memoryBus,
  modelManagerOf,
  roundClock,
  sumOf,
} from '../../support/model-sync.ts'
import { newFolder } from '../../support/process.ts'

/** Redis, which can be away, or hang. */
function switched(bus: ModelBus) {
  const state: { is: 'up' | 'away' | 'hanging' } = { is: 'up' }
  const through =
    <Args extends unknown[], Result>(method: (...args: Args) => Promise<Result>) =>
    (...args: Args): Promise<Result> => {
      if (state.is === 'up') return method(...args)
      return state.is === 'away' ? Promise.reject(new Error('away')) : new Promise(() => {})
    }
  const redis: ModelBus = {
    publish: through(bus.publish),
    fetch: through(bus.fetch),
    look: through(bus.look),
    writeModel: through(bus.writeModel),
    readModel: through(bus.readModel),
  }
  return { redis, state }
}

function nodeOf(t: Test, redis: ModelBus) {
  const first = modelManagerOf(newFolder())
  const pack = (mode: string) => first.models.packed(mode as 'revenue')
  const buses = relayedModels(localModels(first.models.node, pack, 1e12), redis, log)
  const sync = (modelManager: ModelManager, bus: ModelBus) => {
    const modelSync = new ModelSync({
      modelManager,
      bus,
      log,
      timeout: 30,
      now: roundClock(),
      timers: false,
    })
    t.teardown(() => modelSync.close())
    return modelSync
  }
  const worker = modelManagerOf(null)
  const syncs = [sync(first, buses.first), sync(worker, buses.worker)]
  return {
    ...{ first, worker },
    sums: () => [sumOf(first), sumOf(worker)],
    async round() {
      for (const sync of syncs) await sync.round()
    },
  }
}

const rounds = async (nodes: { round(): Promise<void> }[], count = 4) => {
  for (let n = 0; n < count; n++) for (const node of nodes) await node.round()
}

t.test('all processes of two nodes learn the same, each update once', async (t) => {
  const { redis } = switched(memoryBus())
  const nodes = [nodeOf(t, redis), nodeOf(t, redis)] as const
  for (const [n, manager] of nodes.flatMap(({ first, worker }) => [first, worker]).entries())
    learn(manager, 2 ** n)
  await rounds([...nodes])
  for (const { sums } of nodes) t.same(sums(), [15, 15])
  await rounds([...nodes])
  for (const { sums } of nodes) t.same(sums(), [15, 15], 'what comes back is not learned again')
})

for (const is of ['away', 'hanging'] as const)
  t.test(`while Redis is ${is}, the processes of a node learn from each other`, async (t) => {
    const { redis, state } = switched(memoryBus())
    const nodes = [nodeOf(t, redis), nodeOf(t, redis)] as const
    await rounds([...nodes], 1)
    state.is = is
    learn(nodes[0].first, 1)
    learn(nodes[0].worker, 2)
    learn(nodes[1].worker, 4)
    await rounds([...nodes], 4)
    t.same(nodes[0].sums(), [3, 3])
    t.same(nodes[1].sums(), [4, 4])
    if (is === 'hanging') return
    state.is = 'up'
    await rounds([...nodes])
    for (const { sums } of nodes) t.same(sums(), [7, 7])
  })

t.test('a curve that another node shares reaches the workers', async (t) => {
  const redis = memoryBus()
  const { first, worker } = relayedModels(
    localModels('first', async () => Buffer.from('whole'), Date.now()),
    redis,
    log,
  )
  const head = { epoch: 0, seen: [], version: 7 }
  const curve = Buffer.from('a curve')
  const none = { whole: 0, curve: 0 }
  const seenBy = async (bus: ModelBus, node: string) =>
    (await bus.look('revenue', node, false, none)).curve.head
  await redis.look('revenue', 'other', true, none)
  await redis.writeModel('revenue', 'curve', 'other', head, curve)
  t.same(await seenBy(worker, 'second'), null)
  t.same(await seenBy(first, 'first'), head)
  t.same(await first.readModel('revenue', 'curve'), curve)
  t.same(await seenBy(worker, 'second'), head)
  t.same(await worker.readModel('revenue', 'curve'), curve)
})

t.test('a store that fails is logged once, until it has worked again', async (t) => {
  const redis = memoryBus()
  const failing = { fetch: false, look: false }
  const work = async <T>(what: keyof typeof failing, result: () => Promise<T>): Promise<T> => {
    if (failing[what]) throw new Error(`${what} failed`)
    return result()
  }
  const logged: string[] = []
  const { first } = relayedModels(
    localModels('first', async () => Buffer.from('whole'), Date.now()),
    {
      ...redis,
      fetch: (...args) => work('fetch', () => redis.fetch(...args)),
      look: (...args) => work('look', () => redis.look(...args)),
    },
    { info: (fields) => void logged.push((fields as { err: string }).err) },
  )
  const use = async () => {
    await first.look('revenue', 'first', true, { whole: 0, curve: 0 })
    await first.fetch('revenue', '0')
  }
  failing.fetch = true
  for (let n = 0; n < 3; n++) await use()
  failing.look = true
  for (let n = 0; n < 3; n++) await use()
  Object.assign(failing, { fetch: false, look: false })
  await use()
  t.same(logged, ['fetch failed', 'look failed'])
  failing.look = true
  await use()
  t.equal(logged.length, 3)
})
