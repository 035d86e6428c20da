/**
 * `npm run bench:models`: what nodes send each other: bytes of updates and of the shared curve, CPU time of both, memory of
 * a model, and an event of the stream; half a minute.
 */

import { gunzipSync, gzipSync } from 'node:zlib'
import { drained } from '../../opd/base/slices.ts'
import { type BidFacts, createLearner, type Learner } from '../../opd/learner.ts'
import { decisionEventOf } from '../../service/events/event.ts'
import { messageOf } from '../../service/events/stream.ts'
import { bench, type Run } from '../harness/bench.ts'
import { timed } from '../harness/process.ts'
import { type Block, measured } from '../harness/report.ts'
import { source } from '../opd/random.ts'

const { uniform, below } = source(11)

function factsOf(names: number): BidFacts {
  const publisher = `p${Math.floor(uniform() ** 2 * names)}`
  return {
    ...{
      supplier: `s${below(20)}`,
      via: 'proxy',
      mode: 'revenue',
      publisher,
      domain: `${publisher}.example`,
    },
    ...{ inBa: Math.exp(uniform() * 2), floor: 0.2, placement: `${publisher}-${below(5)}` },
    ...{ country: 'US', device: 'phone', format: 'banner', size: '300x250', dsp: `d${below(30)}` },
  }
}

const start = 1.7e12

/** Each bid with an exposure that settles, a tenth of them won. */
function play(learner: Learner, bids: number, names: number): void {
  const policy = { minWinRate: 0.97, holdout: 0.02 }
  for (let n = 0; n < bids; n++) {
    const time = start + n
    const decision = learner.decide(factsOf(names), policy, `k${n}`, time, uniform)
    const bytes = learner.expose(decision, decision.outBa, time)
    if (n % 10 === 0) learner.win(bytes, decision.outBa, time + 5)
    else learner.lose(bytes, null, time + 5)
  }
}

function updates({ quick }: Run): Block[] {
  const rounds = quick ? 3 : 20
  const rowsOf = 4000
  const [trained, other] = [createLearner({}), createLearner({})]
  let [bytes, us] = [0, 0]
  for (let round = 0; round < rounds; round++) {
    play(trained, rowsOf, 2000)
    const delta = trained.delta()
    bytes += delta.length
    us += timed(() => {
      other.merge(delta)
      other.advance(start + round)
    }).us
  }
  const bids = rounds * rowsOf
  return [
    measured(
      [
        ['bytes in a delta', (bytes / bids).toFixed(0)],
        ['in Redis, in base64', ((bytes / bids) * (4 / 3)).toFixed(0)],
        ['CPU of the node that leads, us', (us / bids).toFixed(1)],
      ],
      'a bid that settles and its notice',
    ),
  ]
}

function curves({ quick }: Run): Block[] {
  const rows = [500, 5000, 50_000].map((names) => {
    const learner = createLearner({})
    play(learner, quick ? 20_000 : 100_000, names)
    const shared = timed(() => Buffer.concat(drained(learner.sharing(() => {}))))
    const packed = timed(() => gzipSync(shared.result, { level: 1 }))
    const unpacked = timed(() => new Uint8Array(gunzipSync(packed.result)))
    const other = createLearner({})
    const adopted = timed(() => drained(other.adopting(unpacked.result.slice(), () => [])))
    const kib = (packed.result.length / 1024).toFixed(0)
    const ms = (timing: { us: number }) => (timing.us / 1000).toFixed(1)
    return [String(names), kib, ms(shared), ms(packed), ms(unpacked), ms(adopted)]
  })
  return [
    {
      head: ['publishers', 'KiB', 'copy, ms', 'gzip, ms', 'gunzip, ms', 'adopt, ms'],
      rows,
    },
    'CPU time. Copying and adopting are done in slices on the event loop; gzip and gunzip run on other threads.',
  ]
}

/** MiB of typed arrays, in which a model keeps nearly all that it knows. */
const arrays = () => process.memoryUsage().arrayBuffers / 2 ** 20

function memory({ quick }: Run): Block[] {
  const exposures = quick ? 2 ** 17 : 2 ** 20
  const empty = arrays()
  const learner = createLearner({})
  const model = arrays() - empty
  const policy = { minWinRate: 0.97, holdout: 0.02 }
  const decision = learner.decide(factsOf(2000), policy, 'k', start, uniform)
  // All within a minute, so that none of them settles.
  for (let n = 0; n < exposures; n++)
    learner.expose(decision, decision.outBa, start + (n * 60_000) / exposures)
  const pending = arrays() - empty - model
  return [
    {
      head: ['of a node, for each mode', 'MiB'],
      rows: [
        ['the model', model.toFixed(1)],
        [`${exposures} bids without a notice`, pending.toFixed(1)],
      ],
    },
  ]
}

function events({ quick }: Run): Block[] {
  const count = quick ? 20_000 : 200_000
  const record = {
    ...{ id: 'bf_SYc-nqWIAAAAB', bidId: '6f1c3f8e-7a0b-4e64-9d0e-1f8d0f6f6f6f', supplier: 'acme' },
    ...{ mode: 'revenue' as const, via: 'proxy' as const, arm: 'treated' as const },
    ...{ propensity: 0.9751, inBa: '2.315' },
    ...{
      outBa: '2.051422',
      currency: 'USD',
      decidedAt: start,
      modelVersion: 1234,
      publisher: 'pub-4711',
    },
    ...{ domain: 'news.example', trains: true, features: new Uint8Array(51), floor: 0.5 },
    ...{ winIn: 0.41725, winOut: 0.40161 },
  }
  let bytes = 0
  const { us } = timed(() => {
    for (let n = 0; n < count; n++) bytes += messageOf(decisionEventOf(record)).value.length
  })
  return [
    measured(
      [
        ['bytes', (bytes / count).toFixed(0)],
        ['CPU to make it, us', (us / count).toFixed(1)],
      ],
      'an event of a decision',
    ),
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'What nodes send',
  about: 'Costs of the shared model and of the event stream, in one process without a network.',
  sections: {
    updates: { title: 'Updates', run: updates },
    curves: { title: 'The shared curve', run: curves },
    memory: { title: 'Memory', run: memory },
    events: { title: 'Events', run: events },
  },
})
