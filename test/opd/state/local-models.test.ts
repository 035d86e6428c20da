/** Model updates between the processes of one node: a process that starts has the model of the first, and both learn on. */
import t, { type Test } from 'tap'
import { localModels } from '../../../opd/state/local-models.ts'
import type { ModelManager } from '../../../opd/state/model-manager.ts'
import { ModelSync } from '../../../opd/state/model-sync.ts'
import { operatorOf } from '../../support/model-control.ts'
import { isSum, learn, log, modelManagerOf, roundClock, sumOf } from '../../support/model-sync.ts'
import { newFolder } from '../../support/process.ts'

const began = Date.UTC(2026, 0, 1)

function nodeOf(t: Test, first: ModelManager) {
  const pack = (mode: string) => first.models.packed(mode as 'revenue')
  const bus = localModels(first.models.node, pack, began)
  const sync = (modelManager: ModelManager) => {
    const modelSync = new ModelSync({ modelManager, bus, log, now: roundClock(), timers: false })
    t.teardown(() => modelSync.close())
    return modelSync
  }
  return { bus, sync, firstSync: sync(first) }
}

t.test(
  'a worker takes the model of the first process, and both learn from each other',
  async (t) => {
    const first = modelManagerOf(newFolder())
    learn(first, 1)
    await first.save()
    const { firstSync, sync } = nodeOf(t, first)
    await firstSync.round()
    const worker = modelManagerOf(null)
    const synced = sync(worker)
    await synced.round()
    t.equal(sumOf(worker), 1)
    learn(worker, 2)
    learn(first, 4)
    for (let n = 0; n < 2; n++) {
      await synced.round()
      await firstSync.round()
    }
    await synced.round()
    t.same([sumOf(first), sumOf(worker)], [7, 7])
  },
)

t.test('a worker that starts while models are frozen has the model, too', async (t) => {
  const operator = await operatorOf(t, isSum)
  const first = modelManagerOf(newFolder())
  learn(first, 1)
  await operator.freeze(true)
  await operator.execute(first)
  const { firstSync, sync } = nodeOf(t, first)
  await firstSync.round()
  const worker = modelManagerOf(null)
  await operator.execute(worker)
  const synced = sync(worker)
  await synced.round()
  t.ok(synced.joined)
  t.equal(sumOf(worker), 1)
})

t.test('a position of an earlier life, or of Redis, means the beginning', async (t) => {
  const { bus } = nodeOf(t, modelManagerOf(null))
  await bus.publish('revenue', Uint8Array.of(1))
  await bus.publish('revenue', Uint8Array.of(2))
  const all = await bus.fetch('revenue', '0')
  t.same(
    all.deltas.map(({ bytes }) => bytes[0]),
    [1, 2],
  )
  t.match(all.last, /^\d+-\d+$/, 'a position that Redis reads')
  t.same((await bus.fetch('revenue', all.last)).deltas, [])
  t.same((await bus.fetch('revenue', all.deltas[0]!.place)).deltas.length, 1)
  t.same((await bus.fetch('revenue', `${began - 5}-2`)).deltas.length, 2)
})

t.test('a process that lags by more than is kept goes on with what is', async (t) => {
  const { bus } = nodeOf(t, modelManagerOf(null))
  for (let n = 0; n < 3100; n++) await bus.publish('revenue', new Uint8Array(n))
  const sizes: number[] = []
  for (let from = '0'; ; ) {
    const { deltas, last } = await bus.fetch('revenue', from)
    if (deltas.length === 0) break
    sizes.push(...deltas.map(({ bytes }) => bytes.length))
    from = last
  }
  t.same(
    sizes,
    Array.from({ length: 3000 }, (_, n) => n + 100),
  )
})
