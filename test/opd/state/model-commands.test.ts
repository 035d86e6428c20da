/** A node executes the operators' commands: freeze, roll back, forget a supplier. */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Policy } from '../../../opd/learner.ts'
import { initialControl } from '../../../opd/state/model-control.ts'
import { snapshots } from '../../../opd/state/snapshots.ts'
import { operatorOf } from '../../support/model-control.ts'
import { cold, expects, facts, hour, modelManagerIn, train } from '../../support/model-manager.ts'
import { newFolder } from '../../support/process.ts'

t.test('frozen: it decides and does not learn; what was won meanwhile counts after', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  train(modelManager, 100, true)
  const before = train(modelManager, 50, false)
  const operator = await operatorOf(t)
  await operator.freeze(true)
  await operator.execute(modelManager)
  const frozen = expects(modelManager)
  const during = train(modelManager, 50, true)
  t.ok(
    during.every(({ length }) => length === 0),
    'contexts carry nothing to learn from',
  )
  for (const features of before) modelManager.learnerOf('revenue').win(features, 1, 500)
  modelManager.learnerOf('revenue').advance(1e13)
  t.equal(expects(modelManager), frozen)
  t.ok(expects(modelManager) > 0, 'it decides')
  const restarted = modelManagerIn(dir)
  await operator.execute(restarted)
  t.equal(restarted.control.frozen, true, 'over a restart')
  t.equal(restarted.learnerOf('revenue').isFrozen, true)
  const low = expects(modelManager)
  await operator.freeze(false)
  await operator.execute(modelManager)
  t.ok(expects(modelManager) > low, 'the wins that came meanwhile')
  t.equal(modelManager.learnerOf('revenue').counts.stale, 0)
})

t.test('frozen: multipliers stay where they are, over a rollback as well', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  const operator = await operatorOf(t)
  const kept: Policy = { minWinRate: 0.97, explore: 0, holdout: 0 }
  const learner = modelManager.learnerOf('revenue')
  const multipliers = (bids: number) => {
    for (let n = 0; n < bids; n++) {
      const decision = learner.decide(facts, kept, `m${n}`, n, () => 0.5)
      const features = learner.expose(decision, decision.outBa, n)
      if (features.length > 0 && n % 2 === 0) learner.win(features, 1, n + 1)
      if (n % 10 === 0) learner.advance(n)
    }
    const { theta, lambda } = learner.decide(facts, kept, 'm', bids, () => 0.5)
    return { theta, lambda }
  }
  const cold = multipliers(0)
  const learned = multipliers(2000)
  t.not(learned.theta, cold.theta, 'they move')
  await modelManager.save()
  await operator.freeze(true)
  await operator.execute(modelManager)
  const frozen = multipliers(0)
  t.same(multipliers(2000), frozen)
  await operator.rollback(dir, 'revenue-1')
  await operator.execute(modelManager)
  const before = multipliers(0)
  t.same(multipliers(2000), before)
  await operator.freeze(false)
  await operator.execute(modelManager)
  t.notSame(multipliers(2000), before)
  await modelManager.close()
})

t.test(
  'a rollback brings back a snapshot; the model learns nothing from exposures before it',
  async (t) => {
    const dir = newFolder()
    let now = 1e12
    const modelManager = modelManagerIn(dir, { now: () => now })
    const operator = await operatorOf(t)
    await t.rejects(operator.rollback(dir), /no earlier snapshot/)
    for (const id of ['revenue-7', '../x', 'revenue', 'x-1'])
      await t.rejects(operator.rollback(dir, id), /no snapshot /)
    train(modelManager, 300, true)
    await modelManager.save()
    const good = expects(modelManager)
    now += hour
    const pending = train(modelManager, 300, false)
    modelManager.learnerOf('revenue').advance(1e13)
    await modelManager.save()
    t.ok(expects(modelManager) < good)
    t.same(await operator.rollback(dir, 'revenue-1'), ['revenue-1'])
    await operator.execute(modelManager)
    t.equal(expects(modelManager), good)
    t.equal(modelManager.version('revenue'), 3, 'the version rises')
    t.equal(modelManager.version('margin'), 2, 'the other mode is left alone')
    t.equal(modelManager.control.epochs.revenue, 1)
    for (const features of pending) modelManager.learnerOf('revenue').win(features, 1, 5)
    t.equal(expects(modelManager), good)
    t.equal(modelManager.learnerOf('revenue').counts.stale, 300)
    const marked = train(modelManager, 200, true)
    t.ok(expects(modelManager) > good, 'and it goes on learning')
    t.ok(marked[0]!.length > 0)
    await modelManager.close()
    const again = modelManagerIn(dir, { now: () => now })
    await operator.execute(again)
    t.equal(again.control.epochs.revenue, 1)
    again.learnerOf('revenue').win(marked[0]!, 1, 9)
    t.equal(again.learnerOf('revenue').counts.stale, 0, 'the epoch survives a restart')
    again.learnerOf('revenue').win(pending[0]!, 1, 9)
    t.equal(again.learnerOf('revenue').counts.stale, 1)
    await operator.rollback(dir)
    await operator.execute(again)
    t.equal(again.version('margin'), 4, 'without an ID both modes go back')
  },
)

t.test('exposures that waited in a snapshot are not learned after a rollback to it', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  train(modelManager, 200, true)
  train(modelManager, 200, false)
  await modelManager.save()
  const before = expects(modelManager)
  train(modelManager, 50, true)
  await modelManager.save()
  const operator = await operatorOf(t)
  await operator.rollback(dir, 'revenue-1')
  await operator.execute(modelManager)
  for (let now = 1000; now < 1e9; now += 1e7) modelManager.learnerOf('revenue').advance(now)
  t.equal(expects(modelManager), before)
})

t.test('a damaged snapshot is no place to go back to', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  train(modelManager, 100, true)
  await modelManager.save()
  await modelManager.save()
  const before = expects(modelManager)
  writeFileSync(join(dir, snapshots(readdirSync(dir), 'revenue')[1]!.file), 'x')
  const operator = await operatorOf(t)
  await t.rejects(operator.rollback(dir, 'revenue-1'), { code: 'damaged' })
  await operator.execute(modelManager)
  t.equal(expects(modelManager), before)
  t.equal(modelManager.control.epochs.revenue, 0)
})

t.test('a supplier is forgotten, the others are not', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  train(modelManager, 300, false, 'other')
  const features = train(modelManager, 300, true)
  const [acme, other] = [expects(modelManager), expects(modelManager, 'other')]
  const operator = await operatorOf(t)
  await operator.reset('acme')
  await operator.execute(modelManager)
  const afresh = expects(modelManager)
  t.ok(Math.abs(afresh - cold) < Math.abs(acme - cold), `${afresh} after ${acme}, cold ${cold}`)
  t.equal(expects(modelManager, 'other'), other)
  modelManager.learnerOf('revenue').win(features[0]!, 1, 5)
  const shared = Math.abs(expects(modelManager) - afresh)
  t.ok(shared < 0.01, `an old win moves what all suppliers share alone: ${shared}`)
  await modelManager.close()
  const again = modelManagerIn(dir)
  await operator.execute(again)
  t.ok(Math.abs(expects(again) - afresh) < 0.01, 'forgotten over a restart')
})

t.test('a database that is older than the models is raised to their epoch', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  train(modelManager, 100, true)
  await modelManager.save()
  await modelManager.save()
  const first = await operatorOf(t)
  await first.rollback(dir, 'revenue-1')
  await first.execute(modelManager)
  const restored = await operatorOf(t)
  await restored.execute(modelManager)
  t.same((await restored.source.read()).epochs, { revenue: 1, margin: 0 })
  const joining = modelManagerIn(newFolder())
  await restored.execute(joining)
  t.equal(expects(joining), expects(modelManager), 'other nodes start with the model of this epoch')
})

t.test('a damaged base is refused; the node goes on from its own model', async (t) => {
  const modelManager = modelManagerIn(newFolder())
  train(modelManager, 100, true)
  const before = expects(modelManager)
  const operator = await operatorOf(t)
  await operator.source.raise('revenue', 3, Buffer.from('x'))
  await operator.execute(modelManager)
  t.equal(modelManager.failures.refused, 1)
  t.equal(expects(modelManager), before)
  t.equal(modelManager.control.epochs.revenue, 3)
})

t.test('a store that does not answer changes nothing and delays no snapshot', async (t) => {
  const dir = newFolder()
  const modelManager = modelManagerIn(dir)
  const hangs = () => new Promise<never>(() => {})
  const control = { ...initialControl, epochs: { revenue: 2, margin: 0 } }
  const silentStores = [
    { read: hangs, base: hangs, raise: hangs },
    { read: async () => control, base: hangs, raise: hangs },
  ]
  for (const source of silentStores) void modelManager.execute(source)
  const failing = { read: () => Promise.reject(new Error('away')), base: hangs, raise: hangs }
  await t.rejects(modelManager.execute(failing), /away/)
  await modelManager.close()
  t.same(modelManager.control, initialControl)
  t.equal(snapshots(readdirSync(dir), 'revenue').length, 1)
})
