/** Nodes with the role serve price by the curve of the trainers, and read no updates of each other. */
import t from 'tap'
import { type BidFacts, createLearner } from '../../../opd/learner.ts'
import type { ModelBus } from '../../../opd/state/model-bus.ts'
import { ModelManager } from '../../../opd/state/model-manager.ts'
import { ModelSync, type NodeRole } from '../../../opd/state/model-sync.ts'
import { log, memoryBus } from '../../support/model-sync.ts'
import { newFolder } from '../../support/process.ts'

const facts: BidFacts = { supplier: 'acme', mode: 'revenue', inBa: 2, floor: 0.5, publisher: 'p' }
const policy = { minWinRate: 0, explore: 0, holdout: 0 }
const cold = createLearner({}).chance(facts, 2)

function cluster(roles: readonly NodeRole[]) {
  let now = 1.7e12
  const bus = memoryBus({ keepsLeases: true })
  const nodes = roles.map((role) => {
    let fetched = 0
    const dir = newFolder()
    const modelManager = new ModelManager({
      ...{ dir, attributionWindow: 3_600_000, now: () => now, log },
      ...{ advanceEvery: 1e9, snapshotEvery: 1e9, refitEvery: 1e9, trains: role !== 'serve' },
    })
    const counting: ModelBus = {
      ...bus,
      fetch(mode, from) {
        fetched++
        return bus.fetch(mode, from)
      },
    }
    const options = { modelManager, bus: counting, log, role, now: () => now, timers: false }
    const learner = modelManager.learnerOf('revenue')
    const modelSync = new ModelSync(options)
    return { role, modelManager, modelSync, learner, fetched: () => fetched }
  })
  let bids = 0
  /** A bid at each serving node, won at another. */
  const train = (won: boolean) => {
    const serving = nodes.filter(({ role }) => role !== 'train')
    for (const [n, { learner }] of serving.entries()) {
      const decision = learner.decide(facts, policy, `k${bids++}`, now, () => 0.5)
      const bytes = learner.expose(decision, decision.outBa, now)
      const other = serving[(n + 1) % serving.length]!.learner
      if (won) other.win(bytes, decision.outBa, now + 1)
    }
  }
  const rounds = async (count: number) => {
    for (let n = 0; n < count; n++) {
      now += 2000
      for (const { learner } of nodes) learner.advance(now)
      for (const { modelSync } of nodes) await modelSync.round()
    }
  }
  const close = () =>
    Promise.all(
      nodes.map(async ({ modelManager, modelSync }) => {
        await modelSync.close()
        await modelManager.close()
      }),
    )
  const chances = () => nodes.map(({ learner }) => learner.winChance(facts, 2)!)
  return { nodes, train, rounds, chances, close }
}

t.test('the trainer learns from bids and wins of the others', async (t) => {
  const { nodes, train, rounds, chances, close } = cluster(['serve', 'train', 'serve'])
  t.teardown(close)
  await rounds(1)
  for (let n = 0; n < 60; n++) train(true)
  t.equal(chances()[0], cold, 'a node that serves does not train')
  await rounds(8)
  const [one, trainer, two] = chances()
  t.ok(trainer! > cold + 0.02, `${trainer} was ${cold}`)
  t.equal(one, trainer)
  t.equal(two, trainer)
  for (const { role, modelManager, fetched } of nodes) {
    t.equal(fetched() > 0, role === 'train', `${role} reads the updates of others`)
    if (role === 'serve') t.equal(modelManager.models.stateOf('revenue').refits, false)
  }
})

t.test('a version names the same model on every node', async (t) => {
  const { nodes, train, rounds, close } = cluster(['all', 'all', 'all'])
  t.teardown(close)
  const versions = () => nodes.map(({ modelManager }) => modelManager.version('revenue'))
  await nodes[0]!.modelManager.save()
  await rounds(2)
  for (let n = 0; n < 20; n++) train(true)
  await rounds(8)
  const [one, two, three] = versions()
  t.ok(one! > 1)
  t.same([two, three], [one, one])
  for (const { modelManager } of nodes) await modelManager.save()
  t.same(versions(), [one, one, one], 'a snapshot has the version of the model')
  for (let n = 0; n < 20; n++) train(true)
  await rounds(8)
  const later = versions()
  t.ok(later[0]! > one!)
  t.equal(new Set(later).size, 1)
  const refitting = nodes.filter(
    ({ modelManager }) => modelManager.models.stateOf('revenue').refits,
  )
  t.equal(refitting.length, 1, 'one node refits')
})
