/** Nodes lease tokens from one bucket: together they admit the allotment, whatever the split of the load. */
import t, { type Test } from 'tap'
import { demandMemory, type TokenGrant, type TokenRequest } from '../../opd/ports.ts'
import { LeasedBucket } from '../../proxy/allotment.ts'
import { source } from '../support/random.ts'

/** The shared bucket, with the clock of the simulation. */
function sharedBucket() {
  let tokens: number | null = null
  let at = 0
  let demand = 0
  return ({ rate, depth, wanted, arrived }: TokenRequest, now: number): TokenGrant => {
    tokens = Math.min(depth, (tokens ?? depth) + ((now - at) * rate) / 1000)
    demand = demand * Math.exp((at - now) / demandMemory) + arrived
    at = now
    const granted = Math.min(wanted, Math.max(0, tokens))
    tokens = Math.min(depth, tokens - granted)
    return { tokens: granted, demand }
  }
}

interface Node {
  bucket: LeasedBucket
  /** Requests a second, by time. */
  load: (now: number) => number
  /** Milliseconds from which it lives, and until. */
  from?: number
  until?: number
}

/** The requests that were let through in each window of 5 s, from 0 to `ends`. */
function simulate(nodes: Node[], ends: number, away = (_now: number) => false): number[] {
  const random = source(7)
  const shared = sharedBucket()
  const windows: number[] = Array(Math.ceil(ends / 5000)).fill(0)
  const lives = ({ from = 0, until = Number.POSITIVE_INFINITY }: Node, now: number) =>
    now >= from && now < until
  const phase = nodes.map((_node, at) => (at * 17) % 50)
  for (let now = 0; now < ends; now++)
    for (const [at, node] of nodes.entries()) {
      if (!lives(node, now)) continue
      const { bucket, load } = node
      if (now % 50 === phase[at]) {
        if (away(now)) bucket.lost(now)
        else {
          const request = bucket.request(now)
          const equal = 1 / nodes.filter((each) => lives(each, now)).length
          if (request !== null) bucket.granted(shared(request, now), equal)
        }
      }
      let due = load(now) / 1000
      while (random() < due--) if (bucket.take(now)) windows[Math.floor(now / 5000)]!++
    }
  return windows.map((count) => count / 5)
}

const bucket = (share = 1 / 3, rate = 300) => new LeasedBucket('acme', rate, share)
const near = (t: Test, found: number, wanted: number, name: string) =>
  t.ok(Math.abs(found - wanted) <= wanted * 0.05, `${name}: ${found} of ${wanted} a second`)

t.test('any split of the load gets the whole allotment and no more', (t) => {
  for (const loads of [
    [200, 200, 200],
    [480, 90, 30],
    [1920, 360, 120],
    [600, 0, 0],
    [150, 100, 80],
    [3000, 2, 1],
  ]) {
    const nodes = loads.map((each) => ({ bucket: bucket(), load: () => each }))
    const [first, ...rest] = simulate(nodes, 30_000)
    const name = loads.join('/')
    t.ok(first! <= 330, `${name}: ${first} a second from the start`)
    for (const window of rest) near(t, window, 300, name)
  }
  for (const loads of [
    [100, 60, 40],
    [280, 0, 0],
  ]) {
    const nodes = loads.map((each) => ({ bucket: bucket(), load: () => each }))
    const total = loads.reduce((sum, each) => sum + each)
    for (const window of simulate(nodes, 20_000).slice(1)) near(t, window, total, loads.join('/'))
  }
  t.end()
})

t.test('small allotments: the share of a node may be less than one request', (t) => {
  const nodes = Array.from({ length: 10 }, () => ({ bucket: bucket(0.1, 4), load: () => 20 }))
  const windows = simulate(nodes, 30_000)
  // Each node admits one request in advance.
  t.ok(windows[0]! <= 4 + 10 / 5, `${windows[0]}`)
  for (const window of windows.slice(1)) t.ok(Math.abs(window - 4) <= 1, `${window}`)
  const all = windows.slice(1).reduce((sum, window) => sum + window, 0) / 5
  t.ok(Math.abs(all - 4) <= 0.2, `${all}`)
  t.end()
})

t.test('nodes that join, die or get the load of another change nothing', (t) => {
  const joining = simulate(
    [
      { bucket: bucket(), load: () => 300 },
      { bucket: bucket(), load: () => 300, until: 10_000 },
      { bucket: bucket(), load: () => 300, from: 15_000 },
    ],
    30_000,
  )
  for (const window of joining.slice(1)) near(t, window, 300, 'join and death')
  const moving = simulate(
    [
      { bucket: bucket(), load: (now) => (now < 12_000 ? 600 : 0) },
      { bucket: bucket(), load: (now) => (now < 12_000 ? 0 : 600) },
    ],
    30_000,
  )
  for (const window of moving.slice(1)) near(t, window, 300, 'the load moves')
  t.end()
})

t.test('while the shared bucket is away each node keeps its last share of the demand', (t) => {
  const nodes = [480, 90, 30].map((each) => ({ bucket: bucket(), load: () => each }))
  const windows = simulate(nodes, 30_000, (now) => now >= 10_000 && now < 20_000)
  for (const window of windows.slice(1)) near(t, window, 300, '80/15/5')
  const started = simulate(
    [
      { bucket: bucket(1 / 2), load: () => 600 },
      { bucket: bucket(1 / 2), load: () => 600, from: 10_000 },
    ],
    20_000,
    () => true,
  )
  near(t, started[1]!, 150, 'one that starts alone has the share of the last known number of nodes')
  near(t, started[3]!, 300, 'both')
  t.end()
})

t.test('nothing is asked for a supplier without requests, save a refresh', (t) => {
  const idle = bucket()
  t.not(idle.request(0), null)
  idle.granted({ tokens: 0, demand: 0 }, 1 / 2)
  t.equal(idle.request(4000), null)
  t.equal(idle.clientQps, 150)
  t.not(idle.request(5000), null)
  t.equal(idle.take(5001), true, 'in advance')
  idle.giveBack()
  t.equal(new LeasedBucket('acme', 0, 1).take(1), false)
  t.end()
})
