import t from 'tap'
import { readDelta } from '../../../opd/learner/snapshot.ts'
import { rowBytes, rowOf } from '../../../opd/learner/train/update-log.ts'
import { decodeEnvelope, encodeEnvelope } from '../../../opd/state/envelope.ts'
import { keepEvery } from '../../../opd/state/model-bus.ts'
import { ModelManager } from '../../../opd/state/model-manager.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { bid, pure, start } from '../../support/learners.ts'
import { operatorOf } from '../../support/model-control.ts'
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
import { until } from '../../support/until.ts'

const partsOf = (rows: Uint8Array) =>
  Array.from({ length: rows.length / rowBytes }, (_each, n) => rowOf(rows, n * rowBytes).part)

t.test('nodes exchange updates, and follow a rollback together', async (t) => {
  const bus = memoryBus({ keepsLeases: true })
  const operator = await operatorOf(t, isSum)
  const node = () => {
    const dir = newFolder()
    const modelManager = modelManagerOf(dir)
    const modelSync = new ModelSync({ modelManager, bus, log, now: roundClock(), timers: false })
    return { dir, modelManager, modelSync }
  }
  const [one, two] = [node(), node()] as const
  const rounds = async () => {
    for (let n = 0; n < 2; n++)
      for (const { modelManager, modelSync } of [one, two]) {
        await operator.execute(modelManager)
        await modelSync.round()
      }
  }
  learn(one.modelManager, 1)
  await rounds()
  await one.modelManager.save()
  learn(two.modelManager, 2)
  await rounds()
  t.same([sumOf(one.modelManager), sumOf(two.modelManager)], [3, 3])
  await one.modelManager.save()
  learn(two.modelManager, 4)
  await operator.rollback(one.dir, 'revenue-1')
  await rounds()
  const sums = [sumOf(one.modelManager), sumOf(two.modelManager)]
  t.same(sums, [1, 1], 'what two had learned is of the old epoch')
  learn(two.modelManager, 8)
  await rounds()
  t.same([sumOf(one.modelManager), sumOf(two.modelManager)], [9, 9])
  await operator.freeze(true)
  await operator.reset('acme')
  await rounds()
  for (const { modelManager } of [one, two]) {
    t.equal(modelManager.learnerOf('revenue').isFrozen, true)
    t.equal(modelManager.control.resets['acme'], 1)
  }
  await operator.freeze(false)
  await rounds()
  t.equal(two.modelManager.learnerOf('revenue').isFrozen, false)
  const late = node()
  await operator.execute(late.modelManager)
  await late.modelSync.round()
  t.equal(sumOf(late.modelManager), 9, 'a new node starts where the epoch does')
})

t.test('a bus that hangs holds up the exchange alone', async (t) => {
  const hangs = () => new Promise<never>(() => {})
  for (const hanging of ['publish', 'fetch'] as const) {
    const bus = { ...memoryBus(), [hanging]: hangs }
    const dir = newFolder()
    const modelManager = modelManagerOf(dir)
    const modelSync = new ModelSync({ modelManager, bus, log, timeout: 30 })
    learn(modelManager, 1)
    void modelSync.round()
    await modelSync.close()
    await modelManager.close()
    t.equal(sumOf(modelManagerOf(dir)), 1, `${hanging}: the model is saved`)
  }
})

t.test('deltas wait for a bus that is away, bounded', async (t) => {
  const bus = memoryBus()
  let away = true
  const flaky = {
    ...bus,
    publish: async (mode: 'revenue' | 'margin', delta: Uint8Array) => {
      if (away) throw new Error('away')
      return bus.publish(mode, delta)
    },
  }
  const modelManager = modelManagerOf(null)
  const modelSync = new ModelSync({ modelManager, bus: flaky, log, timers: false })
  for (let n = 0; n < 120; n++) {
    learn(modelManager, 1)
    modelManager.models.takeDelta('revenue')
  }
  await modelSync.round()
  t.equal(modelSync.counts.sent, 0)
  t.equal(modelSync.counts.dropped, 20)
  away = false
  await modelSync.round()
  t.equal(modelSync.counts.sent, 100)
})

t.test(
  'a missing delta is waited for before the model is shared, and counted if lost',
  async (t) => {
    for (const arrives of [true, false]) {
      const bus = memoryBus({ keepsLeases: true })
      const publish = (sequence: number, amount: number) => {
        const delta = new Uint8Array(24)
        new DataView(delta.buffer).setFloat64(0, amount)
        return bus.publish('revenue', encodeEnvelope({ node: 'gone', epoch: 0, sequence, delta }))
      }
      await publish(1, 1)
      await publish(3, 4)
      const modelManager = modelManagerOf(null)
      const modelSync = new ModelSync({ modelManager, bus, log, now: roundClock(), timers: false })
      t.teardown(() => modelSync.close())
      // It leaves the lease to others for three rounds, and waits for the delta for four.
      for (let n = 0; n < 7; n++) await modelSync.round()
      t.equal(sumOf(modelManager), 5)
      t.match(modelSync.counts, { lost: 0 })
      t.equal(await bus.readModel('revenue', 'whole'), null, 'not shared')
      if (arrives) await publish(2, 2)
      await modelSync.round()
      t.equal(sumOf(modelManager), arrives ? 7 : 5)
      t.match(modelSync.counts, { lost: arrives ? 0 : 1 })
      await modelSync.round()
      t.not(await bus.readModel('revenue', 'whole'), null, 'shared')
    }
  },
)

t.test(
  'a bid that a node has priced before it took the shared model still trains it',
  async (t) => {
    const bus = memoryBus({ keepsLeases: true })
    const node = () => {
      const modelManager = new ModelManager({
        ...{ dir: null, attributionWindow: 1000, now: () => start, log },
      })
      const options = { modelManager, bus, log, now: roundClock(), timers: false }
      const modelSync = new ModelSync(options)
      t.teardown(async () => {
        await modelSync.close()
        await modelManager.close()
      })
      return { learner: modelManager.learnerOf('revenue'), modelSync }
    }
    const exposed = ({ learner }: ReturnType<typeof node>, time: number) =>
      learner.expose(
        learner.decide(bid(2, 1), pure, 'k', time, () => 0.9),
        2,
        time,
      )
    const first = node()
    first.learner.win(exposed(first, start), 2, start)
    first.learner.advance(start)
    for (let n = 0; n < 6; n++) await first.modelSync.round()

    const late = node()
    const features = exposed(late, start + 10)
    await late.modelSync.round()
    t.match(late.modelSync.counts, { taken: 2 }, 'of both modes')
    late.learner.advance(start + 50)
    late.learner.win(features, 2, start + 60)
    const { last } = await bus.fetch('revenue', '0')
    await late.modelSync.round()
    const { deltas } = await bus.fetch('revenue', last)
    const sent = deltas.map(({ bytes }) => decodeEnvelope(Buffer.from(bytes))!.delta)
    t.same(
      sent.flatMap((delta) => partsOf(readDelta(delta)!.rows)),
      ['lost', 'paid'],
      'the exposure and its win',
    )
  },
)

t.test(
  'a shared model that is damaged is refused and replaced, and updates are exchanged',
  async (t) => {
    const bus = memoryBus()
    await bus.look('revenue', 'another', true, { whole: 0, curve: 0 })
    const head = { epoch: 0, seen: [['another', 5, []] as [string, number, number[]]] }
    await bus.writeModel('revenue', 'whole', 'another', head, Buffer.from('nothing'))
    const nodes = [1, 2].map(() => {
      const modelManager = modelManagerOf(null)
      const modelSync = new ModelSync({ modelManager, bus, log, now: roundClock(), timers: false })
      return { modelManager, modelSync }
    })
    t.teardown(() => Promise.all(nodes.map(({ modelSync }) => modelSync.close())))
    learn(nodes[0]!.modelManager, 3)
    for (let n = 0; n < 6; n++) for (const { modelSync } of nodes) await modelSync.round()
    for (const { modelManager, modelSync } of nodes) {
      t.equal(sumOf(modelManager), 3)
      t.equal(modelSync.joined, true)
    }
    t.ok(nodes[0]!.modelSync.counts.refused > 0)
    t.ok(nodes[1]!.modelSync.counts.taken > 0)
  },
)

/** Nodes that have joined; the first one leads. */
async function joinedNodes(journal?: Parameters<typeof modelManagerOf>[2]) {
  const bus = memoryBus({ keepsLeases: true })
  const looks = { count: 0 }
  const counted: typeof bus = {
    ...bus,
    look(...args) {
      looks.count++
      return bus.look(...args)
    },
  }
  const node = () => {
    const modelManager = modelManagerOf(null, undefined, journal)
    const options = { modelManager, bus: counted, log, now: roundClock(), timers: false }
    return { modelManager, modelSync: new ModelSync(options) }
  }
  const [one, two] = [node(), node()] as const
  for (let n = 0; n < 6; n++) for (const { modelSync } of [one, two]) await modelSync.round()
  return { bus, looks, one, two }
}

t.test('a win of any node trains the node that leads within a second', async (t) => {
  const { one, two } = await joinedNodes()
  const leads = ({ modelManager }: typeof one) => modelManager.models.stateOf('revenue').refits
  t.same([one, two].map(leads), [true, false])
  learn(two.modelManager, 8)
  t.equal(sumOf(one.modelManager), 0)
  await two.modelSync.keep()
  await one.modelSync.keep()
  t.equal(sumOf(one.modelManager), 8)
  t.ok(2 * keepEvery < 1000)
})

t.test('after a large delta a node sends the next one with its next round', async (t) => {
  const { one, two } = await joinedNodes()
  const large = new Uint8Array(100 * 1024)
  const { inner } = two.modelManager.learnerOf('revenue')
  const { delta } = inner
  inner.delta = () => large
  await two.modelSync.keep()
  inner.delta = delta
  learn(two.modelManager, 8)
  for (const { modelSync } of [two, one]) await modelSync.keep()
  t.equal(sumOf(one.modelManager), 0)
  for (const { modelSync } of [two, one]) await modelSync.round()
  t.equal(sumOf(one.modelManager), 8)
})

t.test('what the journal has not settled leaves a node in no form', async (t) => {
  const journal = { isAway: false, settleApplied: async () => !journal.isAway }
  const { bus, one, two } = await joinedNodes(journal)
  const number = async (part: 'whole' | 'curve') =>
    (await bus.look('revenue', 'reader', false, { whole: -1, curve: -1 }))[part].number
  const published = async () => ({
    deltas: (await bus.fetch('revenue', '0')).deltas.length,
    whole: await number('whole'),
    curve: await number('curve'),
  })
  const before = await published()
  journal.isAway = true
  learn(one.modelManager, 1)
  learn(two.modelManager, 2)
  for (let n = 0; n < 40; n++)
    for (const { modelSync } of [one, two]) {
      await modelSync.keep()
      await modelSync.round()
    }
  t.same(await published(), before)
  journal.isAway = false
  for (let n = 0; n < 20; n++) for (const { modelSync } of [two, one]) await modelSync.round()
  const after = await published()
  t.ok(after.deltas > before.deltas && after.whole > before.whole && after.curve > before.curve)
  t.same([sumOf(one.modelManager), sumOf(two.modelManager)], [3, 3])
})

t.test('the lease is renewed while a round waits for the journal', async (t) => {
  const settling = Promise.withResolvers<boolean>()
  const journal = { waits: false, settleApplied: async () => !journal.waits || settling.promise }
  const { looks, one } = await joinedNodes(journal)
  journal.waits = true
  learn(one.modelManager, 1)
  let ended = false
  const round = one.modelSync.round().then(() => {
    ended = true
  })
  const { count } = looks
  const keeping = one.modelSync.keep()
  await until(() => looks.count >= count + 2, { what: 'both leases are renewed' })
  t.equal(ended, false)
  settling.resolve(true)
  await Promise.all([round, keeping])
})
