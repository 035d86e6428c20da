/** Models between nodes, on a real Redis. */
import t, { type Test } from 'tap'
import type { ModelBus, SharedModelHead } from '../../../opd/state/model-bus.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { RedisState } from '../../../opd/state/redis.ts'
import { learn, log, modelManagerOf, roundClock, sumOf } from '../../support/model-sync.ts'
import { newFolder } from '../../support/process.ts'
import { redisAbsent, startRedis } from '../../support/redis.ts'
import { silent } from '../../support/store.ts'
import { until } from '../../support/until.ts'

/** A Redis, and nodes with connections of their own. */
async function openCarrier(t: Test) {
  const server = await startRedis()
  t.teardown(() => server.stop())
  const clients: RedisState[] = []
  return {
    async open(): Promise<ModelBus> {
      const options = { url: server.url, location: 'us', bidTtl: () => 60_000, onNodes() {} }
      const redis = new RedisState({ ...options, log: silent })
      t.teardown(() => redis.close())
      await until(() => redis.connected)
      clients.push(redis)
      return redis.models
    },
    /**
     * Kills the server and starts it again, without what it had in memory. A node without a model leads after some rounds
     * without another candidate, and rounds of a test take milliseconds: all are connected again first.
     */
    async restart() {
      await server.stop()
      await until(() => clients.every(({ connected }) => !connected))
      await server.start()
      await until(() => clients.every(({ connected }) => connected))
    },
  }
}

const bytesOf = (n: number) => {
  const bytes = Buffer.alloc(300)
  bytes.writeUInt32BE(n)
  return bytes
}
const numberOf = (bytes: Uint8Array) => Buffer.from(bytes).readUInt32BE(0)

async function rest(bus: ModelBus, from: string): Promise<{ numbers: number[]; last: string }> {
  const numbers: number[] = []
  for (let place = from; ; ) {
    const { deltas, last } = await bus.fetch('revenue', place)
    numbers.push(...deltas.map(({ bytes }) => numberOf(bytes)))
    place = last
    if (deltas.length === 0) return { numbers, last: place }
  }
}

t.test('the stream of updates', { skip: redisAbsent }, async (t) => {
  const carrier = await openCarrier(t)
  const [one, two, reader] = [await carrier.open(), await carrier.open(), await carrier.open()]

  t.test('a reader beside several writers misses none, and reads none twice', async (t) => {
    const count = 300
    const found: number[] = []
    let place = '0'
    const write = async (bus: ModelBus, first: number) => {
      for (let n = first; n < count; n += 4) await bus.publish('revenue', bytesOf(n))
    }
    let writing = true
    const reading = async () => {
      for (let more = true; more; ) {
        more = writing
        const { numbers, last } = await rest(reader, place)
        found.push(...numbers)
        place = last
      }
    }
    const writers = Promise.all([write(one, 0), write(one, 1), write(two, 2), write(two, 3)])
    await Promise.all([
      writers.then(() => {
        writing = false
      }),
      reading(),
    ])
    t.equal(found.length, count)
    t.equal(new Set(found).size, count)
    t.same((await rest(two, '0')).numbers, found, 'in one order for all')
    t.same((await reader.fetch('margin', '0')).deltas, [], 'each mode has its own')
  })

  t.test('the oldest updates go, and no place is used twice', async (t) => {
    const { last } = await rest(reader, '0')
    for (let n = 1000; n < 7500; n++) await one.publish('revenue', bytesOf(n))
    const { numbers } = await rest(two, '0')
    t.ok(numbers.length >= 6000 && numbers.length < 6500, String(numbers.length))
    t.equal(numbers.at(-1), 7499)
    t.ok((await rest(two, last)).numbers.every((n) => n >= 1000))
    t.same((await rest(two, '5-5')).numbers, numbers, 'a place of another store')
  })
})

t.test('the shared model', { skip: redisAbsent }, async (t) => {
  const carrier = await openCarrier(t)
  const [one, two] = [await carrier.open(), await carrier.open()]
  const head: SharedModelHead = { epoch: 3, seen: [['n', 7, [9]]] }
  const none = { whole: 0, curve: 0 }
  const nothing = { number: 0, head: null }
  t.same(await one.look('revenue', 'one', false, none), {
    leads: false,
    whole: nothing,
    curve: nothing,
  })
  t.equal(await one.readModel('revenue', 'whole'), null)
  const write = (bus: typeof one, node: string, n: number) =>
    bus.writeModel('revenue', 'whole', node, head, bytesOf(n))
  t.equal(await write(one, 'one', 1), 0, 'without the lease')
  t.equal((await one.look('revenue', 'one', true, none)).leads, true)
  t.equal((await two.look('revenue', 'two', true, none)).leads, false, 'one leads')
  t.equal(await write(two, 'two', 2), 0)
  const number = await write(one, 'one', 3)
  t.ok(number > 0)
  t.same(await two.look('revenue', 'two', true, none), {
    leads: false,
    whole: { number, head },
    curve: nothing,
  })
  const known = { whole: number, curve: 0 }
  t.same((await two.look('revenue', 'two', true, known)).whole, { number, head: null })
  t.equal(numberOf((await two.readModel('revenue', 'whole'))!), 3)
  t.equal((await one.look('revenue', 'one', true, known)).leads, true, 'renewed')

  t.test('a large curve, under the lease of the model', async (t) => {
    const curve = Buffer.alloc(3 << 20, 7)
    const curveHead = { ...head, version: 8 }
    t.equal(await two.writeModel('revenue', 'curve', 'two', curveHead, curve), 0)
    t.ok((await one.writeModel('revenue', 'curve', 'one', curveHead, curve)) > 0)
    const seen = await two.look('revenue', 'two', false, known)
    t.equal(seen.curve.head?.version, 8)
    t.same(seen.whole, { number, head: null }, 'the other part is the known one')
    t.ok(curve.equals(Buffer.from((await two.readModel('revenue', 'curve'))!)))
  })

  t.test('another node leads when the holder has ended', async (t) => {
    const led = async () => (await two.look('revenue', 'two', true, known)).leads
    await until(led, { what: 'a new holder' })
    t.equal(await write(one, 'one', 4), 0, 'the old one is late')
    t.equal(await write(two, 'two', 5), number + 1)
  })
})

t.test('nodes that were away', { skip: redisAbsent }, async (t) => {
  const carrier = await openCarrier(t)
  const bus = await carrier.open()
  const folder = newFolder()
  const node = (dir: string | null = null) => {
    const modelManager = modelManagerOf(dir)
    const modelSync = new ModelSync({ modelManager, bus, log, now: roundClock(), timers: false })
    t.teardown(() => modelSync.close())
    return { modelManager, modelSync }
  }
  const have = (sum: number, nodes: ReturnType<typeof node>[]) =>
    until(
      async () => {
        for (const { modelSync } of nodes) await modelSync.round()
        return nodes.every(({ modelManager }) => sumOf(modelManager) === sum)
      },
      { what: `nodes with ${sum}` },
    )
  const leading = node()
  const early = node(folder)
  learn(leading.modelManager, 1)
  await have(1, [leading, early])
  await early.modelManager.save()
  // More updates than a stream keeps, in rounds of as many as a node keeps.
  for (let n = 1; n <= 1600; n++) {
    learn(leading.modelManager, 1)
    leading.modelManager.models.takeDelta('revenue')
    if (n % 100 === 0) await leading.modelSync.round()
  }
  const late = node()
  t.equal(late.modelSync.joined, false)
  await late.modelSync.round()
  t.equal(late.modelSync.joined, true)
  t.ok(sumOf(late.modelManager) > 1400, 'one that joins begins with the shared model')
  await have(1601, [leading, late])
  const restarted = node(folder)
  t.equal(sumOf(restarted.modelManager), 1)
  await have(1601, [leading, restarted])
  learn(restarted.modelManager, 10_000)
  await have(11_601, [restarted, late, leading])
  t.match(restarted.modelSync.counts, { lost: 0, refused: 0 })

  t.test('the next node that leads has the shared model and the updates since', async (t) => {
    const taken = () => [late, restarted].map(({ modelSync }) => modelSync.counts.taken)
    const before = taken()
    await leading.modelSync.close()
    learn(late.modelManager, 100_000)
    await have(111_601, [late, restarted])
    t.match(late.modelSync.counts, { lost: 0, refused: 0 })
    const added = taken().map((count, n) => count - before[n]!)
    t.same(added.sort(), [0, 1], 'one leads')
  })

  t.test('a server that lost the model gets it again, though a joiner asks first', async (t) => {
    await carrier.restart()
    const joiner = node()
    const hasAll = async () => {
      for (const { modelSync } of [joiner, late, restarted]) await modelSync.round()
      return sumOf(joiner.modelManager) === 111_601
    }
    await until(hasAll, { what: 'a joiner with the model' })
    t.ok(joiner.modelSync.counts.taken > 0)
  })
})
