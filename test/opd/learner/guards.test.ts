/** Guards: what puts the bid's own price in place, what does not, and the way back. */
import t from 'tap'
import { Evidence } from '../../../opd/learner/control/evidence.ts'
import { Guards } from '../../../opd/learner/control/guards.ts'
import { WinRateCusum } from '../../../opd/learner/control/win-rate-cusum.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000

interface Traffic {
  bids: number
  /** True win rate; the model thinks .5. */
  rate: (now: number) => number
  delay?: (now: number) => number
  /** Milliseconds between bids. */
  every?: (now: number) => number
  from?: number
}

/** One supplier's bids and notices; says which guard acted first, and when. */
function run(guards: Guards, traffic: Traffic) {
  const { bids, rate, delay = () => 5000, every = () => 1000, from = start } = traffic
  const random = source(3)
  const due: [number, number][] = []
  let now = from
  let acted: number | null = null
  let bid = -1
  let guard = guards.guard
  for (let n = 0; n < bids; n++, now += every(now)) {
    while (due.length > 0 && due[0]![0] <= now) {
      const [, dueAt] = due.shift()!
      guards.addWin(dueAt, 1, 1, now, true)
    }
    guards.exposed(0.5, 1, now, 15_000)
    if (random() < rate(now)) due.push([now + delay(now), now])
    const matured = guards.mature(now, 15_000)
    if (matured.bids > 0 && guards.compare(matured, now)) guards.dropped()
    if (acted === null && guards.acts) {
      acted = now
      bid = n
      guard = guards.guard
    }
  }
  return { acted, bid, now, guard }
}

t.test('prices start shallow and deepen by wins at lower prices', (t) => {
  const guards = new Guards()
  t.equal(guards.lowest(0.5), 0.85)
  t.equal(guards.lowest(0.97), 0.97, 'minFactor holds')
  for (let n = 0; n < 600; n++) guards.addWin(start, 1, 1, start, false)
  t.equal(guards.lowest(0.5), 0.85, 'wins at the own price show nothing about lower ones')
  const depths: number[] = []
  for (let n = 0; n < 600; n++) {
    guards.addWin(start, 1, 1, start, true)
    const lowest = guards.lowest(0.5)
    if (lowest !== depths.at(-1)) depths.push(lowest)
  }
  t.same(depths, [0.85, 0.7, 0.5])
  t.equal(guards.guard, 'none')
  t.end()
})

t.test(
  'when notices stop the bid’s own price is asked, and from shallow again when one comes',
  (t) => {
    const guards = new Guards()
    const { now } = run(guards, { bids: 3000, rate: () => 0.5 })
    t.equal(guards.lowest(0.5), 0.5)
    const silent = run(guards, { bids: 150, rate: () => 0, from: now })
    t.ok(silent.bid > 0 && silent.bid < 130, `after ${silent.bid} bids`)
    t.equal(guards.guard, 'silence')
    t.equal(guards.lowest(0.5), 1)
    guards.addWin(silent.now, 1, 1, silent.now + 1, true)
    t.equal(guards.lowest(0.5), 0.85)
    t.end()
  },
)

t.test('a fall of a fifth acts within a few hundred wins, and is over in time', (t) => {
  const guards = new Guards()
  const { now, acted } = run(guards, { bids: 20_000, rate: () => 0.5 })
  t.equal(acted, null)
  const fallen = run(guards, { bids: 4000, rate: () => 0.4, from: now })
  t.ok(fallen.acted !== null && fallen.bid < 3000, `after ${fallen.bid} bids`)
  t.equal(fallen.guard, 'drop')
  run(guards, { bids: 6000, rate: () => 0.4, from: fallen.now })
  t.equal(guards.guard, 'none', 'what it is now is the new reference')
  t.end()
})

const hour = 3_600_000
const quiet: Readonly<Record<string, Traffic>> = {
  'a day and its cycle': {
    bids: 86_400,
    rate: (now) => 0.5 + 0.05 * Math.sin((2 * Math.PI * now) / 24 / hour),
  },
  'a third of notices lost all along': { bids: 40_000, rate: () => 0.35 },
  'low traffic': { bids: 3000, rate: () => 0.5, every: () => 300_000 },
  'traffic that grows and falls tenfold': {
    bids: 60_000,
    rate: () => 0.5,
    every: (now) => (Math.floor(now / hour) % 2 === 0 ? 1000 : 100),
  },
  'notices that come to take a minute': {
    bids: 40_000,
    rate: () => 0.5,
    delay: (now) => 5000 + Math.min(55_000, (now - start) / 300),
  },
}
for (const [name, traffic] of Object.entries(quiet))
  t.test(`no alarm: ${name}`, (t) => {
    const guards = new Guards()
    t.equal(run(guards, traffic).acted, null)
    t.end()
  })

t.test('a night whose win rate is that of the night before is no alarm', (t) => {
  const poor = (day: number) => {
    const fall = new WinRateCusum(hour, 10)
    const random = source(5)
    let alarms = 0
    for (let n = 0; n < 2 * 86_400; n++) {
      const now = start - (start % (24 * hour)) + n * 1000
      const night = Math.floor(now / hour) % 24 >= 20
      const wins = random() < (night ? 0.3 : 0.5) ? 1 : 0
      if (fall.seen(1, wins, now) && n >= day * 86_400) alarms++
    }
    return alarms
  }
  t.equal(poor(1), 0)
  t.equal(poor(0), 1, 'the first night is one')
  t.end()
})

t.test('wins that clear above the price sent put the price back', (t) => {
  const guards = new Guards()
  for (let n = 0; n < 400; n++) guards.addWin(start, 1, 1.001, start, true)
  t.equal(guards.acts, false)
  for (let n = 0; n < 100; n++) guards.addWin(start, 1, 1.1, start, true)
  t.equal(guards.guard, 'cleared')
  t.equal(guards.lowest(0.5), 1)
  t.end()
})

t.test('an infinite or undefined number in the model puts the price back', (t) => {
  const guards = new Guards()
  guards.notFinite()
  t.equal(guards.guard, 'number')
  t.equal(guards.lowest(0.5), 1)
  t.end()
})

/** Bids of which a twentieth is holdout, the rest keeps a share of its wins. */
function evidenceOf(kept: number, seed: number, use: (evidence: Evidence, n: number) => void) {
  const evidence = new Evidence()
  const random = source(seed)
  for (let n = 0; n < 40_000; n++) {
    const held = random() < 0.05
    const group = held ? 'holdout' : 'lowered'
    const sent = held ? 1 : 0.9
    evidence.exposed(group, { inBa: 1, sent, winIn: 0.5, winOut: held ? 0.5 : 0.49, weight: 1 })
    if (random() < (held ? 0.5 : 0.5 * kept)) evidence.addWin(group, 1, sent, 1)
    if (n % 64 === 0) use(evidence, n)
  }
}

t.test(
  'too little is kept: it acts when one can be sure, however often one looks, and else never',
  (t) => {
    let acted = 0
    for (let seed = 1; seed <= 40; seed++) {
      const guards = new Guards()
      evidenceOf(0.97, seed, (evidence) => guards.checkKept(evidence, 0.95))
      if (guards.acts) acted++
    }
    t.ok(acted <= 1, `${acted} of 40 where .97 is kept`)
    const guards = new Guards()
    let time = 0
    evidenceOf(0.8, 1, (evidence, n) => {
      if (guards.checkKept(evidence, 0.95)) time = n
    })
    t.equal(guards.guard, 'kept')
    t.ok(time > 0 && time < 30_000, `after ${time} bids`)
    t.end()
  },
)

t.test('each alarm that follows holds longer', (t) => {
  const guards = new Guards()
  const held = (from: number) => {
    let n = 0
    for (; guards.acts && n < 10_000; n++) {
      guards.exposed(0.5, 1, from + n * 1000, 1000)
      guards.mature(from + n * 1000, 1000)
    }
    return n
  }
  for (let n = 0; n < 60; n++) guards.addWin(start - 1, 1, 1, start, true)
  guards.dropped()
  // the win keeps silence away
  const first = heldWithWins(guards, start)
  guards.dropped()
  const second = heldWithWins(guards, start + 1e7)
  t.ok(second > 1.8 * first, `${first}, ${second}`)
  t.equal(held(start + 2e7), 0)
  t.end()
})

function heldWithWins(guards: Guards, from: number): number {
  let n = 0
  for (; guards.acts && n < 10_000; n++) {
    const now = from + n * 1000
    guards.exposed(0.5, 1, now, 1000)
    if (n % 2 === 0) guards.addWin(now, 1, 1, now, true)
    guards.mature(now, 1000)
  }
  return n
}

t.test(
  'wins that clear at a tiny part of the price sent put it back until prices are right',
  (t) => {
    const guards = new Guards()
    for (let n = 0; n < 200; n++) guards.addWin(start, 1, 0.4, start, true)
    t.equal(guards.guard, 'none', 'a second price may be far lower')
    for (let n = 0; n < 100; n++) guards.addWin(start, 1, 0.001, start, true)
    t.equal(guards.guard, 'cleared')
    t.equal(guards.lowest(0.5), 1)
    for (let n = 0; n < 100; n++) guards.addWin(start, 1, 1, start, true)
    const { guard } = run(guards, { bids: 1000, rate: () => 0.5 })
    t.equal(guard, 'cleared', 'it acts for a while')
    t.notOk(guards.acts, 'and ends')
    t.end()
  },
)

t.test('wins that are reported to other nodes prevent the guard silence', (t) => {
  const guards = new Guards()
  const { now } = run(guards, { bids: 3000, rate: () => 0.5 })
  for (let n = 0; n < 600; n++) {
    const time = now + n * 1000
    guards.exposed(0.5, 1, time, 15_000)
    if (n % 10 === 0) guards.received(5, 5, time - 4000, time)
    guards.mature(time, 15_000)
  }
  t.equal(guards.acts, false)
  t.end()
})

t.test('a restart keeps the share of wins that cleared at a tiny part of the price', (t) => {
  const [guards, again] = [new Guards(), new Guards()]
  run(guards, { bids: 3000, rate: () => 0.5 })
  for (let n = 0; n < 60; n++) guards.addWin(start, 1, 0.001, start, true)
  again.restoreGuards(JSON.parse(JSON.stringify(guards.saved())))
  t.equal(again.guard, 'none')
  for (let n = 0; n < 20; n++) again.addWin(start, 1, 0.001, start, true)
  t.equal(again.guard, 'cleared')
  t.end()
})

t.test('a restart restores the state of a guard', (t) => {
  const guards = new Guards()
  run(guards, { bids: 3000, rate: () => 0.5 })
  guards.dropped()
  const again = new Guards()
  again.restoreGuards(JSON.parse(JSON.stringify(guards.saved())))
  t.equal(again.guard, 'drop')
  t.equal(again.lowest(0.5), 1)
  t.end()
})
