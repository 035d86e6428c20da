/**
 * Deltas between nodes: any order, duplicates, losses; each counts once, and never in another epoch. In memory with
 * buses that misbehave, and on a real Redis.
 */
import * as fc from 'fast-check'
import { createClient } from 'redis'
import t from 'tap'
import type { Learner } from '../../opd/learner.ts'
import { joinControl, parseControl, sameControl, spellControl } from '../../opd/state/control.ts'
import { decodeEnvelope, type Envelope, encodeEnvelope, Seen } from '../../opd/state/envelope.ts'
import { createExchange, type ModelBus } from '../../opd/state/exchange.ts'
import { createKeeper, type Keeper } from '../../opd/state/keeper.ts'
import { openRedis } from '../../opd/state/redis.ts'
import { newFolder } from '../support/process.ts'
import { redisAbsent, startRedis } from '../support/redis.ts'

const log = { info() {}, warn() {}, error() {} }

/** A model that is a sum: what is in it, and how often, can be read. Its delta says what was added since the last. */
class Sum implements Learner {
  value = 0
  private sent = 0

  constructor(snapshot?: Uint8Array) {
    if (snapshot === undefined) return
    this.value = new DataView(snapshot.buffer, snapshot.byteOffset).getFloat64(0)
    this.sent = this.value
  }

  decide() {
    return {
      outBa: 1,
      factor: 1,
      arm: 'treated' as const,
      propensity: 1,
      winIn: 1,
      winOut: this.value,
    }
  }
  expose = () => new Uint8Array(1)
  win(_features: Uint8Array, amount: number) {
    this.value += amount
  }
  withdraw() {}
  advance() {}
  delta() {
    const bytes = new Uint8Array(this.value === this.sent ? 16 : 24)
    new DataView(bytes.buffer).setFloat64(0, this.value - this.sent)
    this.sent = this.value
    return bytes
  }
  merge(delta: Uint8Array) {
    const added = new DataView(delta.buffer, delta.byteOffset).getFloat64(0)
    this.value += added
    this.sent += added
  }
  snapshot() {
    const bytes = new Uint8Array(8)
    new DataView(bytes.buffer).setFloat64(0, this.value)
    return bytes
  }
}

const keeperOf = (dir: string | null, now: () => number = () => 1e12) =>
  createKeeper({
    dir,
    attributionWindow: 1000,
    now,
    log,
    create: (_options, snapshot) => new Sum(snapshot),
    advanceEvery: 1e8,
    snapshotEvery: 1e8,
    commandsEvery: 1e8,
  })
const sumOf = (keeper: Keeper) => (keeper.of('revenue').inner as Sum).value
/** Powers of two: a sum tells what is in it. */
const learn = (keeper: Keeper, amount: number) =>
  keeper.of('revenue').win(keeper.of('revenue').expose(null as never, 1, 1), amount, 1)

/** What Redis keeps, in memory. `fault` may repeat, reorder or lose what is fetched. */
function memoryBus(fault: (rows: string[]) => string[] = (rows) => rows): ModelBus {
  const streams = new Map<string, Buffer[]>()
  const bases = new Map<string, Buffer>()
  let control: string | null = null
  const stream = (mode: string) => {
    const rows = streams.get(mode) ?? []
    streams.set(mode, rows)
    return rows
  }
  return {
    async publish(mode, delta) {
      stream(mode).push(Buffer.from(delta))
    },
    async fetch(mode, from) {
      const rows = stream(mode)
      const places = rows.map((_row, at) => String(at + 1)).slice(Number(from))
      const deltas = fault(places).map((place) => ({ place, bytes: rows[Number(place) - 1]! }))
      return { deltas, last: String(rows.length) }
    },
    control: async () => control,
    async swapControl(old, next) {
      if (control !== old) return false
      control = next
      return true
    },
    async putBase(mode, epoch, packed) {
      bases.set(`${mode} ${epoch}`, Buffer.from(packed))
    },
    base: async (mode, epoch) => bases.get(`${mode} ${epoch}`) ?? null,
  }
}

t.test('an envelope comes out as it went in, a damaged one not at all', (t) => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[0-9a-f-]{1,40}$/),
      fc.nat({ max: 2 ** 48 - 1 }),
      fc.integer({ min: 1, max: 2 ** 32 - 1 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.nat(),
      (node, epoch, sequence, delta, at) => {
        const bytes = encodeEnvelope({ node, epoch, sequence, delta })
        t.same(decodeEnvelope(bytes), { node, epoch, sequence, delta: new Uint8Array(delta) })
        const damaged = Buffer.from(bytes)
        damaged[at % damaged.length]! ^= 0x40
        return (
          decodeEnvelope(damaged) === null &&
          decodeEnvelope(bytes.subarray(0, at % bytes.length)) === null
        )
      },
    ),
    { numRuns: 300 },
  )
  t.end()
})

t.test('what was seen is known in any order, within bounds', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('a', 'b'), fc.integer({ min: 1, max: 60 }))),
      (rows) => {
        let seen = new Seen()
        const known = new Set<string>()
        for (const [node, sequence] of rows) {
          if (seen.has(node, sequence) !== known.has(`${node} ${sequence}`)) return false
          seen.add(node, sequence)
          known.add(`${node} ${sequence}`)
          if (sequence % 7 === 0) seen = new Seen(JSON.parse(JSON.stringify(seen.rows())))
        }
        return [...known].every((each) => seen.has(each[0]!, Number(each.slice(2))))
      },
    ),
  )
  const seen = new Seen()
  for (let n = 2; n < 5000; n += 2) seen.add('gaps', n)
  for (let n = 0; n < 5000; n++) seen.add(`node ${n}`, 1)
  const rows = seen.rows()
  t.ok(rows.length <= 2000 && rows.every(([, , beyond]) => beyond.length <= 1000))
  t.end()
})

t.test('merged in any order, repeated and lost: each that arrived counts once', async () => {
  const delivery = fc.record({ pick: fc.nat(), times: fc.integer({ min: 0, max: 3 }) })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 30 }),
      fc.array(delivery, { maxLength: 60 }),
      async (learned, deliveries) => {
        const nodes = [0, 1, 2].map(() => keeperOf(null))
        for (const node of nodes) node.models.shares = true
        const sent: { of: number; amount: number; envelope: Envelope }[] = []
        for (const [n, of] of learned.entries()) {
          learn(nodes[of]!, 2 ** n)
          const envelope = nodes[of]!.models.draw('revenue').pop()!
          sent.push({ of, amount: 2 ** n, envelope })
        }
        const receiver = nodes[0]!
        const arrived = new Set<number>()
        for (const { pick, times } of sent.length === 0 ? [] : deliveries) {
          const at = pick % sent.length
          const { of, envelope } = sent[at]!
          if (of === 0) continue
          for (let n = 0; n < times; n++) receiver.models.accept('revenue', envelope)
          if (times > 0) arrived.add(at)
        }
        const own = sent.filter(({ of }) => of === 0)
        const others = [...arrived].map((at) => sent[at]!)
        return sumOf(receiver) === [...own, ...others].reduce((sum, { amount }) => sum + amount, 0)
      },
    ),
    { numRuns: 200 },
  )
})

t.test('control joins in any order to the same', (t) => {
  const control = fc.record({
    epochs: fc.record({ revenue: fc.nat(9), margin: fc.nat(9) }),
    frozen: fc.record({ at: fc.nat(5), is: fc.boolean() }),
    resets: fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.nat(9), { noNullPrototype: true }),
  })
  fc.assert(
    fc.property(control, control, control, (a, b, c) => {
      const left = joinControl(joinControl(a, b), c)
      const right = joinControl(a, joinControl(c, b))
      return (
        sameControl(left, right) &&
        sameControl(left, joinControl(left, b)) &&
        sameControl(parseControl(spellControl(left))!, left)
      )
    }),
  )
  for (const wrong of ['', '{', 'null', '[]', '{"epochs":{"revenue":-1,"margin":0}}'])
    t.equal(parseControl(wrong), null, wrong)
  t.end()
})

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
async function world(all: Step[], busOf: () => ModelBus) {
  let now = 1e12
  let amount = 1
  let learned = 0
  const make = (dir: string) => {
    const keeper = keeperOf(dir, () => now)
    return { dir, keeper, exchange: createExchange({ keeper, redis: busOf(), log }) }
  }
  const nodes = [0, 1, 2].map(() => make(newFolder()))
  for (const step of all) {
    now += 10
    const node = nodes[step.node]!
    if (step.do === 'learn') {
      learn(node.keeper, amount)
      learned += amount
      amount *= 4
    } else if (step.do === 'round') await node.exchange.round()
    else if (step.do === 'save') await node.keeper.save()
    else if (step.do === 'rollback') await node.keeper.obey({ verb: 'rollback' }).catch(() => null)
    else {
      if (step.do === 'stop') {
        await node.exchange.close()
        await node.keeper.close()
      }
      nodes[step.node] = make(node.dir)
    }
  }
  for (let round = 0; round < 4; round++) for (const { exchange } of nodes) await exchange.round()
  return { nodes, learned }
}

/** Amounts are powers of four: a digit 1 says that one is in the sum, 2 or 3 that it counts twice. */
const onceEach = (sum: number) => /^[01]+$/.test(sum.toString(4))

t.test('three nodes through anything end with the same model, nothing in it twice', async () => {
  await fc.assert(
    fc.asyncProperty(steps(false), async (all) => {
      const bus = memoryBus()
      const { nodes, learned } = await world(all, () => bus)
      const sums = nodes.map(({ keeper }) => sumOf(keeper))
      const crashed = all.some((step) => step.do === 'crash')
      return new Set(sums).size === 1 && (crashed ? onceEach(sums[0]!) : sums[0] === learned)
    }),
    { numRuns: 60 },
  )
})

t.test('a bus that repeats and reorders changes nothing', async () => {
  await fc.assert(
    fc.asyncProperty(steps(false), fc.infiniteStream(fc.nat(3)), async (all, chaos) => {
      const bus = memoryBus((rows) => {
        const repeated = rows.flatMap((row) => [row, ...(chaos.next().value === 0 ? [row] : [])])
        return chaos.next().value === 1 ? repeated.reverse() : repeated
      })
      const { nodes, learned } = await world(
        all.filter((step) => step.do !== 'crash'),
        () => bus,
      )
      return nodes.every(({ keeper }) => sumOf(keeper) === learned)
    }),
    { numRuns: 40 },
  )
})

t.test('rollbacks between: all nodes end in one epoch with one model', async () => {
  await fc.assert(
    fc.asyncProperty(steps(true), async (all) => {
      const bus = memoryBus()
      const { nodes } = await world(all, () => bus)
      const sums = nodes.map(({ keeper }) => sumOf(keeper))
      const epochs = nodes.map(({ keeper }) => keeper.control.epochs.revenue)
      return new Set(epochs).size === 1 && new Set(sums).size === 1 && onceEach(sums[0]!)
    }),
    { numRuns: 60 },
  )
})

t.test('what one node is told all are told', async (t) => {
  const bus = memoryBus()
  const nodes = [0, 1].map(() => {
    const keeper = keeperOf(newFolder())
    return { keeper, exchange: createExchange({ keeper, redis: bus, log }) }
  }) as [{ keeper: Keeper; exchange: ReturnType<typeof createExchange> }, never]
  const [one, two] = nodes as { keeper: Keeper; exchange: ReturnType<typeof createExchange> }[] as [
    (typeof nodes)[0],
    (typeof nodes)[0],
  ]
  const rounds = async () => {
    for (let n = 0; n < 2; n++) {
      await one.exchange.round()
      await two.exchange.round()
    }
  }
  learn(one.keeper, 1)
  await rounds()
  await one.keeper.save()
  learn(two.keeper, 2)
  await rounds()
  t.same([sumOf(one.keeper), sumOf(two.keeper)], [3, 3])
  await one.keeper.save()
  learn(two.keeper, 4)
  await one.keeper.obey({ verb: 'rollback', id: 'revenue-1' })
  await rounds()
  t.same([sumOf(one.keeper), sumOf(two.keeper)], [1, 1], 'what two had learned is of the old epoch')
  learn(two.keeper, 8)
  await rounds()
  t.same([sumOf(one.keeper), sumOf(two.keeper)], [9, 9])
  await two.keeper.obey({ verb: 'freeze' })
  await two.keeper.obey({ verb: 'reset', supplier: 'acme' })
  await rounds()
  t.equal(one.keeper.of('revenue').isFrozen, true)
  t.ok(one.keeper.control.resets['acme']! > 0)
  await one.keeper.obey({ verb: 'unfreeze' })
  await rounds()
  t.equal(two.keeper.of('revenue').isFrozen, false)
  const late = keeperOf(newFolder())
  const joining = createExchange({ keeper: late, redis: bus, log })
  await joining.round()
  t.equal(sumOf(late), 9, 'a new node begins where the epoch does')
  t.ok(late.control.resets['acme']! > 0)
})

t.test('a bus that lost everything is told again; a damaged base is refused', async (t) => {
  let bus = memoryBus()
  const dir = newFolder()
  const keeper = keeperOf(dir)
  const exchange = createExchange({ keeper, redis: bus, log })
  learn(keeper, 1)
  await keeper.save()
  await keeper.save()
  await keeper.obey({ verb: 'rollback' })
  await exchange.round()
  await keeper.close()
  bus = memoryBus()
  const again = keeperOf(dir)
  await createExchange({ keeper: again, redis: bus, log }).round()
  const other = keeperOf(newFolder())
  await createExchange({ keeper: other, redis: bus, log }).round()
  t.equal(other.control.epochs.revenue, again.control.epochs.revenue)
  t.equal(sumOf(other), 1)
  const broken = { ...bus, base: async () => Buffer.from('x') }
  const third = keeperOf(newFolder())
  learn(third, 2)
  await createExchange({ keeper: third, redis: broken, log }).round()
  t.equal(third.failures.refused, 2, 'one of each mode')
  t.equal(sumOf(third), 2, 'it goes on from its own')
  t.equal(third.control.epochs.revenue, again.control.epochs.revenue)
})

t.test('a bus that hangs holds up the exchange alone', async (t) => {
  const hangs = () => new Promise<never>(() => {})
  const told = spellControl({
    epochs: { revenue: 5, margin: 5 },
    frozen: { at: 1, is: true },
    resets: {},
  })
  for (const hanging of ['control', 'base', 'publish', 'fetch'] as const) {
    const bus = { ...memoryBus(), control: async () => told, [hanging]: hangs }
    const dir = newFolder()
    const keeper = keeperOf(dir)
    const exchange = createExchange({ keeper, redis: bus, log, patience: 30 })
    learn(keeper, 1)
    void exchange.round()
    await keeper.obey({ verb: 'reset', supplier: 'acme' })
    await exchange.close()
    await keeper.close()
    t.equal(sumOf(keeperOf(dir)), 1, `${hanging}: the model is saved`)
  }
})

t.test('deltas wait for a bus that is away, bounded', async (t) => {
  const bus = memoryBus()
  let away = true
  const flaky = {
    ...bus,
    control: async () => {
      if (away) throw new Error('away')
      return bus.control()
    },
  }
  const keeper = keeperOf(null)
  const exchange = createExchange({ keeper, redis: flaky, log })
  for (let n = 0; n < 120; n++) {
    learn(keeper, 1)
    keeper.models.draw('revenue')
  }
  await exchange.round()
  t.equal(exchange.counts.sent, 0)
  t.equal(exchange.counts.dropped, 20)
  away = false
  await exchange.round()
  t.equal(exchange.counts.sent, 100)
})

t.test('the same on a real Redis', { skip: redisAbsent }, async (t) => {
  const server = await startRedis()
  t.teardown(() => server.stop())
  const cleaner = await createClient({ url: server.url }).connect()
  t.teardown(() => cleaner.destroy())
  const { url } = server
  const open = () => openRedis({ url, location: 'us', contextTtl: () => 60_000, log, onNodes() {} })
  await fc.assert(
    fc.asyncProperty(steps(true), async (all) => {
      await cleaner.flushAll()
      const clients = [open(), open(), open()]
      while (!clients.every(({ connected }) => connected))
        await new Promise((resolve) => setTimeout(resolve, 5))
      let next = 0
      const { nodes } = await world(all, () => clients[next++ % 3]!)
      const sums = nodes.map(({ keeper }) => sumOf(keeper))
      await Promise.all(clients.map((client) => client.close()))
      return new Set(sums).size === 1 && onceEach(sums[0]!)
    }),
    { numRuns: 12 },
  )
})
