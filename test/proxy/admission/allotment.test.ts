/** Nodes lease tokens from one bucket: together they admit the allotment, whatever the split of the load. */
import t, { type Test } from 'tap'
import { demandMemory, type TokenGrant, type TokenRequest } from '../../../opd/ports.ts'
import { LeasedBucket } from '../../../proxy/admission/allotment.ts'
import { source } from '../../support/random.ts'

/** The shared bucket, with the clock of the simulation. */
function sharedBucket() {
  let tokens: number | null = null
  let time = 0
  let demand = 0
  return ({ rate, depth, wanted, arrived }: TokenRequest, now: number): TokenGrant => {
    tokens = Math.min(depth, (tokens ?? depth) + ((now - time) * rate) / 1000)
    demand = demand * Math.exp((time - now) / demandMemory) + arrived
    time = now
    const granted = Math.min(wanted, Math.max(0, tokens))
    tokens = Math.min(depth, tokens - granted)
    return { tokens: granted, demand }
  }
}

interface Node {
  bucket: LeasedBucket
  /** Requests a second, by time. */
  load: (now: number) => number
  /** Milliseconds from which the node runs, and until which. */
  from?: number
  until?: number
  refused?: number
}

/** Milliseconds of one count, of a window, and after a change of the nodes until their sum is right again. */
const slot = 100
const window = 5000
const settles = 2000

/** The requests that were let through in each slot, from 0 to `ends`. */
function simulate(nodes: Node[], ends: number, away = (_now: number) => false): number[] {
  const random = source(7)
  const shared = sharedBucket()
  const passed: number[] = Array(Math.ceil(ends / slot)).fill(0)
  const lives = ({ from = 0, until = Number.POSITIVE_INFINITY }: Node, now: number) =>
    now >= from && now < until
  const phase = nodes.map((_node, index) => (index * 17) % 50)
  for (let now = 0; now < ends; now++)
    for (const [index, node] of nodes.entries()) {
      if (!lives(node, now)) continue
      const { bucket, load } = node
      if (now % 50 === phase[index]) {
        if (away(now)) bucket.lost(now)
        else {
          const request = bucket.request(now)
          const equal = 1 / nodes.filter((node) => lives(node, now)).length
          if (request !== null) bucket.granted(shared(request, now), equal)
        }
      }
      let due = load(now) / 1000
      while (random() < due--) {
        if (bucket.takeToken(now)) passed[Math.floor(now / slot)]!++
        else node.refused = (node.refused ?? 0) + 1
      }
    }
  return passed
}

/** The least and the most that any window let through, of those between two times: per second. */
function extremes(passed: readonly number[], from: number, to = passed.length * slot) {
  const width = window / slot
  const rates: number[] = []
  for (let first = from / slot; first + width <= to / slot; first++)
    rates.push(passed.slice(first, first + width).reduce((sum, n) => sum + n, 0) / (window / 1000))
  return { least: Math.min(...rates), most: Math.max(...rates) }
}

const bucket = (share = 1 / 3, rate = 300) => new LeasedBucket('acme', rate, share)

/**
 * Any 5 s that begin 2 s after a change are within 5 % of `wanted` a second, and no 5 s at all are over it by more than 10 %
 * (CONTRACT 3). `changes`: when nodes come and go, milliseconds.
 */
function holds(
  t: Test,
  passed: readonly number[],
  wanted: number,
  name: string,
  changes: readonly number[] = [0],
) {
  const { most } = extremes(passed, 0)
  t.ok(most <= 1.1 * wanted, `${name}: at most ${most} of ${wanted} a second`)
  for (const [n, time] of changes.entries()) {
    const found = extremes(passed, time + settles, changes[n + 1])
    t.ok(found.least >= 0.95 * wanted, `${name}, from ${time} ms: at least ${found.least}`)
    t.ok(found.most <= 1.05 * wanted, `${name}, from ${time} ms: at most ${found.most}`)
  }
}

t.test('any split of the load gets the whole allotment and no more', (t) => {
  for (const loads of [
    [200, 200, 200],
    [480, 90, 30],
    [1920, 360, 120],
    [600, 0, 0],
    [150, 100, 80],
    [3000, 2, 1],
  ]) {
    const nodes = loads.map((load) => ({ bucket: bucket(), load: () => load }))
    holds(t, simulate(nodes, 30_000), 300, loads.join('/'))
  }
  for (const loads of [
    [100, 60, 40],
    [280, 0, 0],
  ]) {
    const nodes = loads.map((load): Node => ({ bucket: bucket(), load: () => load }))
    const total = simulate(nodes, 20_000).reduce((sum, n) => sum + n, 0)
    const refused = nodes.reduce((sum, node) => sum + (node.refused ?? 0), 0)
    t.ok(
      refused <= 0.01 * (total + refused),
      `${loads.join('/')}: ${refused} refused of a lower load`,
    )
  }
  t.end()
})

t.test('small allotments: the share of a node may be less than one request', (t) => {
  const nodes = Array.from({ length: 10 }, () => ({ bucket: bucket(0.1, 4), load: () => 20 }))
  const passed = simulate(nodes, 30_000)
  // Each node admits one request in advance.
  t.ok(extremes(passed, 0).most <= 4 + 10 / 5)
  const { least, most } = extremes(passed, window)
  t.ok(least >= 3 && most <= 5, `${least} to ${most}`)
  const all = passed.slice(window / slot).reduce((sum, n) => sum + n, 0) / 25
  t.ok(Math.abs(all - 4) <= 0.2, `${all}`)
  t.end()
})

/** Loads of three nodes, of which the last one is not always there. */
for (const [name, loads] of [
  ['equal', [200, 200, 200]],
  ['80/15/5', [90, 30, 480]],
  ['all on one', [0, 0, 600]],
  ['none on one', [300, 300, 0]],
] as const) {
  /** The load of the last node while it is away goes to the first. */
  const three = (from: number, until: number) =>
    loads.map((load, n): Node => {
      const isHere = (now: number) => now >= from && now < until
      if (n === 2) return { bucket: bucket(), load: () => load, from, until }
      return { bucket: bucket(), load: (now) => load + (n === 0 && !isHere(now) ? loads[2] : 0) }
    })

  t.test(`${name}: a node joins`, (t) => {
    holds(t, simulate(three(10_000, 30_000), 30_000), 300, name, [0, 10_000])
    t.end()
  })

  t.test(`${name}: a node ends with the tokens that it has`, (t) => {
    holds(t, simulate(three(0, 10_000), 30_000), 300, name, [0, 10_000])
    t.end()
  })

  t.test(`${name}: a node drains: its load goes elsewhere before it ends`, (t) => {
    const nodes = three(0, 10_000).map((node) => ({ ...node, until: 30_000 }))
    const last = nodes[2]!
    Object.assign(last, { until: 11_000, load: (now: number) => (now < 10_000 ? loads[2] : 0) })
    holds(t, simulate(nodes, 30_000), 300, name, [0, 10_000])
    t.end()
  })

  t.test(`${name}: while the shared bucket is away each node keeps its last share`, (t) => {
    const passed = simulate(three(0, 40_000), 40_000, (now) => now >= 10_000 && now < 25_000)
    holds(t, passed, 300, name, [0, 10_000, 25_000])
    t.end()
  })
}

t.test(
  'a node that starts again while the shared bucket is away has the share of one node',
  (t) => {
    const load = () => 300
    const away = (now: number) => now >= 8000 && now < 30_000
    const nodes: Node[] = [
      { bucket: bucket(), load },
      { bucket: bucket(), load },
      { bucket: bucket(), load, until: 15_000 },
      { bucket: bucket(), load, from: 16_000 },
    ]
    const passed = simulate(nodes, 45_000, away)
    t.ok(extremes(passed, 0).most <= 330)
    for (const [from, to] of [
      [2000, 15_000],
      [18_000, 30_000],
      [32_000, 45_000],
    ] as const) {
      const { least, most } = extremes(passed, from, to)
      t.ok(least >= 285 && most <= 315, `${from} to ${to} ms: ${least} to ${most}`)
    }
    t.end()
  },
)

t.test('the first start of all while the shared bucket is away', (t) => {
  const started = simulate(
    [
      { bucket: bucket(1 / 2), load: () => 600 },
      { bucket: bucket(1 / 2), load: () => 600, from: 10_000 },
    ],
    20_000,
    () => true,
  )
  const alone = extremes(started, settles, 10_000)
  t.ok(alone.least >= 142.5 && alone.most <= 157.5, 'the share of the last known number of nodes')
  const both = extremes(started, 10_000 + settles)
  t.ok(both.least >= 285 && both.most <= 315, 'both')
  t.end()
})

t.test('nothing is asked for a supplier without requests, save a refresh', (t) => {
  const idle = bucket()
  t.not(idle.request(0), null)
  idle.granted({ tokens: 0, demand: 0 }, 1 / 2)
  t.equal(idle.request(4000), null)
  t.equal(idle.clientQps, 150)
  t.not(idle.request(5000), null)
  t.equal(idle.takeToken(5001), true, 'in advance')
  idle.giveBack()
  t.equal(new LeasedBucket('acme', 0, 1).takeToken(1), false)
  t.end()
})
