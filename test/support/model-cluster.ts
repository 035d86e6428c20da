/** Nodes with traffic that share a model, in simulated time. */
import { type BidFacts, createLearner, refit } from '../../opd/learner.ts'
import { encodeEnvelope } from '../../opd/state/envelope.ts'
import { keepEvery, type ModelBus } from '../../opd/state/model-bus.ts'
import { ModelManager } from '../../opd/state/model-manager.ts'
import { ModelSync } from '../../opd/state/model-sync.ts'
import { memoryBus } from './model-sync.ts'
import { source } from './random.ts'

/** What the nodes logged as errors. */
export const errors: string[] = []
const log = {
  info() {},
  warn() {},
  error: (_fields: object, text: string) => void errors.push(text),
}
const step = 50
const round = 2000
const second = 1000
const policy = { minWinRate: 0.97, explore: 0.005, holdout: 0.02 }

interface Win {
  sentAt: number
  node: number
  bytes: Uint8Array
  cleared: number
}

/** Counts what one node reads. */
function counted(bus: ModelBus, reads: { deltas: number; bytes: number }): ModelBus {
  return {
    ...bus,
    async fetch(mode, from) {
      const fetched = await bus.fetch(mode, from)
      reads.deltas += fetched.deltas.length
      for (const { bytes } of fetched.deltas) reads.bytes += bytes.length
      return fetched
    },
    async readModel(...part) {
      const bytes = await bus.readModel(...part)
      reads.bytes += bytes?.length ?? 0
      return bytes
    },
  }
}

/** The node that leads, and the others. */
export function divided<N extends { modelManager: ModelManager }>(nodes: readonly N[]) {
  const leads = ({ modelManager }: N) => modelManager.models.stateOf('revenue').refits
  return { leader: nodes.find(leads)!, followers: nodes.filter((node) => !leads(node)) }
}

/** `whole` nodes with models, and more nodes of which only the updates are made. */
export function cluster(size: number, others: number, bidsPerSecond: number) {
  const uniform = source(7)
  let now = 1.7e12
  const bus: ModelBus = memoryBus({ keepsLeases: true, now: () => now })
  const nodeOf = () => {
    const reads = { deltas: 0, bytes: 0 }
    const modelManager = new ModelManager({
      ...{ dir: null, attributionWindow: 1_800_000, now: () => now, log },
      ...{ advanceEvery: 1e9, snapshotEvery: 1e9, refitEvery: 1e9 },
    })
    const options = { modelManager, bus: counted(bus, reads), log, now: () => now, timers: false }
    const modelSync = new ModelSync(options)
    return { modelManager, modelSync, learner: modelManager.learnerOf('revenue'), reads }
  }
  const nodes = Array.from({ length: size }, nodeOf)
  // A few learners make the updates of many nodes, in turn.
  const senders = Array.from({ length: Math.min(4, others) }, () => createLearner({}))
  const crashed: typeof nodes = []
  const learners = [...nodes.map(({ learner }) => learner), ...senders]
  const sequences = new Map<string, number>()
  let turn = 0
  let wins: Win[] = []
  let bids = 0

  function factsOf(): BidFacts {
    const publisher = `p${Math.floor(uniform() ** 3 * 50)}`
    return {
      ...{ supplier: `s${Math.floor(uniform() ** 2 * 3)}`, mode: 'revenue', publisher },
      ...{ inBa: Math.exp(uniform() * 1.5), floor: 0.2, domain: `${publisher}.example` },
      ...{
        placement: `${publisher}-${Math.floor(uniform() * 3)}`,
        country: 'US',
        format: 'banner',
      },
    }
  }
  const wonAt = ({ inBa, publisher = '' }: BidFacts, price: number) => {
    const middle = inBa * (0.5 + 0.05 * (Number(publisher.slice(1)) % 9))
    return uniform() < 0.9 / (1 + Math.exp(-6 * Math.log(price / middle)))
  }
  const probes = Array.from({ length: 60 }, factsOf)

  function bid(): void {
    const facts = factsOf()
    const learner = learners[Math.floor(uniform() * learners.length)]!
    const decision = learner.decide(facts, policy, `k${bids++}`, now, uniform)
    const bytes = learner.expose(decision, decision.outBa, now)
    if (!wonAt(facts, decision.outBa)) return
    const node = Math.floor(uniform() * learners.length)
    wins.push({ sentAt: now + 500 + uniform() * 3000, node, bytes, cleared: decision.outBa })
  }

  /** Every node sends a delta when it exchanges updates. The rows of a sender are those of one of its nodes. */
  async function send(): Promise<void> {
    for (let n = 0; n < others; n++) {
      const node = `node-${turn++ % others}`
      const delta = senders[n % senders.length]!.delta()
      const sequence = (sequences.get(node) ?? 0) + 1
      sequences.set(node, sequence)
      await bus.publish('revenue', encodeEnvelope({ node, epoch: 0, sequence, delta }))
    }
  }

  async function pass(milliseconds: number, traffic: boolean): Promise<void> {
    for (const end = now + milliseconds; now < end; ) {
      now += step
      for (let n = 0; traffic && n < (bidsPerSecond * step) / second; n++) bid()
      const due = wins.filter(({ sentAt }) => sentAt <= now)
      wins = wins.filter(({ sentAt }) => sentAt > now)
      for (const { node, bytes, cleared } of due)
        learners[node % learners.length]!.win(bytes, cleared, now)
      for (const learner of learners) learner.advance(now)
      for (const { modelManager, learner } of nodes) {
        if (now % second !== 0 || !modelManager.models.stateOf('revenue').refits) continue
        const job = learner.inner.refitJob(now)
        if (job === null) continue
        const result = refit(job)
        learner.inner.applyRefit(result)
        modelManager.models.pushRefit('revenue', result)
      }
      if (now % keepEvery === 0) {
        await send()
        for (const { modelSync } of nodes) await modelSync.keep()
      }
      if (now % round !== 0) continue
      for (const { modelSync } of nodes) await modelSync.round()
    }
  }

  /** Until every win has its notice. */
  async function notify(): Promise<void> {
    while (wins.length > 0) await pass(step, false)
  }

  /** The largest difference of two nodes in the chance of the same bid. */
  function spread(): number {
    const differences = probes.flatMap((facts) =>
      [1, 0.8].map((factor) => {
        const chances = nodes.map(({ learner }) => learner.winChance(facts, facts.inBa * factor)!)
        return Math.max(...chances) - Math.min(...chances)
      }),
    )
    return Math.max(...differences)
  }

  const join = () => {
    const node = nodeOf()
    nodes.push(node)
    return node
  }
  /** The node that leads ends without a word. */
  const crash = () => {
    const { leader } = divided(nodes)
    nodes.splice(nodes.indexOf(leader), 1)
    learners.splice(learners.indexOf(leader.learner), 1)
    crashed.push(leader)
    return leader
  }
  const close = () =>
    Promise.all(
      [...nodes, ...crashed].map(async ({ modelManager, modelSync }) => {
        await modelSync.close()
        await modelManager.close()
      }),
    )
  return { nodes, pass, notify, spread, join, crash, close }
}
