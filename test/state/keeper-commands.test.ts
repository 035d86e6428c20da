/** What an operator says to the models of one node: freeze, roll back, forget a supplier. */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Policy } from '../../opd/learner.ts'
import { snapshots } from '../../opd/state/snapshots.ts'
import { cold, errors, expects, facts, hour, keeperIn, teach } from '../support/keeper.ts'
import { newFolder } from '../support/process.ts'

t.test('frozen: it decides and does not learn; what was won meanwhile counts after', async (t) => {
  const dir = newFolder()
  const keeper = keeperIn(dir)
  teach(keeper, 100, true)
  const before = teach(keeper, 50, false)
  t.equal(await keeper.obey({ verb: 'freeze' }), 'frozen: decides, does not learn')
  const frozen = expects(keeper)
  const during = teach(keeper, 50, true)
  t.ok(
    during.every(({ length }) => length === 0),
    'contexts carry nothing to learn from',
  )
  for (const features of before) keeper.of('revenue').win(features, 1, 500)
  keeper.of('revenue').advance(1e13)
  t.equal(expects(keeper), frozen)
  t.ok(expects(keeper) > 0, 'it decides')
  const restarted = keeperIn(dir)
  t.equal(restarted.control.frozen.is, true, 'over a restart')
  t.equal(restarted.of('revenue').isFrozen, true)
  const low = expects(keeper)
  t.equal(await keeper.obey({ verb: 'unfreeze' }), 'learning')
  t.ok(expects(keeper) > low, 'the wins that came meanwhile')
  t.equal(keeper.of('revenue').counts.stale, 0)
})

t.test('frozen: multipliers stay where they are, over a rollback as well', async (t) => {
  const keeper = keeperIn(newFolder())
  const kept: Policy = { minWinRate: 0.97, explore: 0, holdout: 0 }
  const learner = keeper.of('revenue')
  const multipliers = (bids: number) => {
    for (let n = 0; n < bids; n++) {
      const decision = learner.decide(facts, kept, `m${n}`, n, () => 0.5)
      const features = learner.expose(decision, decision.outBa, n)
      if (features.length > 0 && n % 2 === 0) learner.win(features, 1, n + 1)
    }
    const { theta, lambda } = learner.decide(facts, kept, 'm', bids, () => 0.5)
    return { theta, lambda }
  }
  const cold = multipliers(0)
  const learned = multipliers(2000)
  t.not(learned.theta, cold.theta, 'they move')
  await keeper.save()
  await keeper.obey({ verb: 'freeze' })
  const frozen = multipliers(0)
  t.same(multipliers(2000), frozen)
  await keeper.obey({ verb: 'rollback', id: 'revenue-1' })
  const before = multipliers(0)
  t.same(multipliers(2000), before)
  await keeper.obey({ verb: 'unfreeze' })
  t.notSame(multipliers(2000), before)
  await keeper.close()
})

t.test(
  'a rollback brings back a snapshot; what was exposed before it teaches nothing',
  async (t) => {
    const dir = newFolder()
    let now = 1e12
    const keeper = keeperIn(dir, { now: () => now })
    t.test('nothing to roll back to', async (t) => {
      await t.rejects(keeper.obey({ verb: 'rollback' }), /no earlier snapshot/)
      await t.rejects(keeper.obey({ verb: 'rollback', id: 'revenue-7' }), /no snapshot revenue-7/)
    })
    teach(keeper, 300, true)
    await keeper.save()
    const good = expects(keeper)
    now += hour
    const pending = teach(keeper, 300, false)
    keeper.of('revenue').advance(1e13)
    await keeper.save()
    t.ok(expects(keeper) < good)
    const answer = await keeper.obey({ verb: 'rollback', id: 'revenue-1' })
    t.equal(answer, 'rolled back to revenue-1')
    t.equal(expects(keeper), good)
    t.equal(keeper.version('revenue'), 3, 'the version rises')
    t.equal(keeper.version('margin'), 2, 'the other mode is left alone')
    t.equal(keeper.control.epochs.revenue, now)
    for (const features of pending) keeper.of('revenue').win(features, 1, 5)
    t.equal(expects(keeper), good)
    t.equal(keeper.of('revenue').counts.stale, 300)
    const marked = teach(keeper, 200, true)
    t.ok(expects(keeper) > good, 'and it goes on learning')
    t.ok(marked[0]!.length > 0)
    await keeper.close()
    const again = keeperIn(dir, { now: () => now })
    t.equal(again.control.epochs.revenue, now)
    again.of('revenue').win(marked[0]!, 1, 9)
    t.equal(again.of('revenue').counts.stale, 0, 'the epoch lives over a restart')
    again.of('revenue').win(pending[0]!, 1, 9)
    t.equal(again.of('revenue').counts.stale, 1)
    await again.obey({ verb: 'rollback' })
    t.equal(again.version('margin'), 4, 'without an ID both modes go back')
  },
)

t.test('what waited in a snapshot is not taught after a rollback to it', async (t) => {
  const dir = newFolder()
  const keeper = keeperIn(dir)
  teach(keeper, 200, true)
  teach(keeper, 200, false)
  await keeper.save()
  const before = expects(keeper)
  teach(keeper, 50, true)
  await keeper.save()
  await keeper.obey({ verb: 'rollback', id: 'revenue-1' })
  for (let now = 1000; now < 1e9; now += 1e7) keeper.of('revenue').advance(now)
  t.equal(expects(keeper), before)
})

t.test('a damaged snapshot is no place to go back to', async (t) => {
  const dir = newFolder()
  const keeper = keeperIn(dir)
  teach(keeper, 100, true)
  await keeper.save()
  await keeper.save()
  const before = expects(keeper)
  writeFileSync(join(dir, snapshots(readdirSync(dir), 'revenue')[1]!.file), 'x')
  await t.rejects(keeper.obey({ verb: 'rollback', id: 'revenue-1' }))
  t.equal(expects(keeper), before)
  t.equal(keeper.control.epochs.revenue, 0)
})

t.test('a supplier is forgotten, the others are not', async (t) => {
  const dir = newFolder()
  const keeper = keeperIn(dir)
  teach(keeper, 300, false, 'other')
  const features = teach(keeper, 300, true)
  const [acme, other] = [expects(keeper), expects(keeper, 'other')]
  t.equal(await keeper.obey({ verb: 'reset', supplier: 'acme' }), 'acme is forgotten')
  const afresh = expects(keeper)
  t.ok(Math.abs(afresh - cold) < Math.abs(acme - cold), `${afresh} after ${acme}, cold ${cold}`)
  t.equal(expects(keeper, 'other'), other)
  keeper.of('revenue').win(features[0]!, 1, 5)
  const shared = Math.abs(expects(keeper) - afresh)
  t.ok(shared < 0.01, `an old win moves what all suppliers share alone: ${shared}`)
  await keeper.close()
  const again = keeperIn(dir)
  t.ok(Math.abs(expects(again) - afresh) < 0.01, 'forgotten over a restart')
  for (const supplier of ['', 'UPPER', '../x', '__proto__'])
    await t.rejects(again.obey({ verb: 'reset', supplier }), /no id/)
})

t.test('what was said that cannot be read is forgotten loudly', async (t) => {
  const dir = newFolder()
  await keeperIn(dir).obey({ verb: 'freeze' })
  writeFileSync(join(dir, 'control.json'), '{"epochs":{"revenue":"x"}}')
  errors.length = 0
  const keeper = keeperIn(dir)
  t.equal(keeper.control.frozen.is, false)
  t.match(errors, [/cannot be read/])
})
