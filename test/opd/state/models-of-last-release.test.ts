/**
 * Nodes of the last version and of this one share models during a rolling update: what the last version wrote is in the
 * fixture, and a node that joins begins with it. A change of these formats reads the one before as well.
 *
 * At a release: UPDATE_MODELS=1 node test/opd/state/models-of-last-release.test.ts
 */
import { readFileSync, writeFileSync } from 'node:fs'
import t from 'tap'
import type { BidFacts } from '../../../opd/learner.ts'
import { createModelManager } from '../../../opd/state/model-manager.ts'
import { createModelSync } from '../../../opd/state/model-sync.ts'
import type { ModelBus, SharedModelHead } from '../../../opd/state/shared-model.ts'
import { log, memoryBus } from '../../support/model-sync.ts'
import { source } from '../../support/random.ts'

/** Bytes in base64. */
interface Written {
  head: SharedModelHead
  bytes: string
}
interface Fixture {
  model: Written
  /** Of the stream: in the model, or after it and in the curve. */
  deltas: string[]
  curve: Written
  /** Of the probes, with all deltas. */
  chances: number[]
}

const file = new URL('fixtures/models-of-last-release.json', import.meta.url)
const began = 1.7e12
const policy = { minWinRate: 0.97, explore: 0.005, holdout: 0.02 }
const factsOf = (n: number): BidFacts => ({
  ...{ supplier: 'acme', mode: 'revenue', inBa: 1 + (n % 5) / 4, floor: 0.2 },
  ...{ publisher: `p${n % 3}`, domain: `d${n % 3}.example`, country: 'US', format: 'banner' },
})
const probes = Array.from({ length: 15 }, (_each, n) => factsOf(n))

function nodeOn(bus: ModelBus, clock: { now: number }) {
  const now = () => clock.now
  const modelManager = createModelManager({
    ...{ dir: null, attributionWindow: 60_000, now, log },
    ...{ advanceEvery: 1e9, snapshotEvery: 1e9, refitEvery: 1e9 },
  })
  const modelSync = createModelSync({ modelManager, bus, log, now })
  const learner = modelManager.of('revenue')
  const chances = () => probes.map((facts) => learner.winChance(facts, 0.9 * facts.inBa)!)
  const close = async () => {
    await modelSync.close()
    await modelManager.close()
  }
  return { learner, modelManager, modelSync, chances, close }
}

async function make(): Promise<Fixture> {
  const bus = memoryBus({ keepsLeases: true })
  const clock = { now: began }
  const { learner, modelSync, chances, close } = nodeOn(bus, clock)
  const random = source(3)
  const train = (bids: number) => {
    for (let n = 0; n < bids; n++) {
      clock.now += 100
      const facts = factsOf(Math.floor(random() * 15))
      const decision = learner.decide(facts, policy, `k${clock.now}`, clock.now, random)
      const bytes = learner.expose(decision, decision.outBa, clock.now)
      if (random() < decision.outBa / 3) learner.win(bytes, decision.outBa, clock.now + 50)
      learner.advance(clock.now)
    }
  }
  train(600)
  await modelSync.round()
  const { head } = await bus.look('revenue', 'reader', false, 0)
  const model = Buffer.from((await bus.readModel('revenue'))!)
  train(100)
  await modelSync.round()
  const curveHead = (await bus.look('revenue-curve', 'reader', false, 0)).head
  const curve = Buffer.from((await bus.readModel('revenue-curve'))!)
  const { deltas } = await bus.fetch('revenue', '0')
  const fixture = {
    model: { head: head!, bytes: model.toString('base64') },
    deltas: deltas.map(({ bytes }) => Buffer.from(bytes).toString('base64')),
    curve: { head: curveHead!, bytes: curve.toString('base64') },
    chances: chances(),
  }
  await close()
  return fixture
}

if (process.env['UPDATE_MODELS'] !== undefined)
  writeFileSync(file, `${JSON.stringify(await make(), null, 1)}\n`)

const { model, deltas, curve, chances } = JSON.parse(readFileSync(file, 'utf8')) as Fixture

/** What a node of the last version wrote before this one joins. */
async function written(hasCurve: boolean, leads: boolean) {
  const bus = memoryBus({ keepsLeases: true })
  const write = async (mode: string, { head, bytes }: Written) => {
    await bus.look(mode, 'old', true, 0)
    await bus.writeModel(mode, 'old', head, Buffer.from(bytes, 'base64'))
    if (!leads) await bus.look(mode, 'old', false, 0)
  }
  await write('revenue', model)
  for (const delta of deltas) await bus.publish('revenue', Buffer.from(delta, 'base64'))
  if (hasCurve) await write('revenue-curve', curve)
  return bus
}

for (const [name, hasCurve, leads] of [
  ['follows the curve of a node of the last version', true, true],
  ['leads after it, with its model and its updates', false, false],
] as const)
  t.test(`a node that joins ${name}`, async (t) => {
    const clock = { now: began + 80_000 }
    const node = nodeOn(await written(hasCurve, leads), clock)
    t.teardown(node.close)
    const cold = node.chances()
    await node.modelSync.round()
    node.learner.advance(clock.now)
    t.equal(node.modelSync.joined, true)
    t.match(node.modelSync.counts, { refused: 0, lost: 0 })
    const { counts } = node.modelSync
    t.ok((leads ? counts.curvesAdopted : counts.merged) > 0)
    const found = node.chances()
    for (const [n, chance] of chances.entries()) {
      t.ok(Math.abs(found[n]! - chance) < 0.03, `${found[n]} and ${chance}`)
      t.ok(Math.abs(cold[n]! - chance) > 0.05, 'it was learned')
    }
  })
