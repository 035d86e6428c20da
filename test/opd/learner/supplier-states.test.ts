/** The controls of a supplier over restarts, and of nodes that share. */
import t from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import type { Outcome } from '../../../opd/learner/control/evidence.ts'
import { SupplierStates } from '../../../opd/learner/control/supplier-states.ts'
import { Visits } from '../../../opd/learner/control/visits.ts'
import { OnlineLearner } from '../../../opd/learner/learner.ts'
import { type BidFacts, createLearner, type Policy, refit } from '../../../opd/learner.ts'
import { trained, start as trainedFrom } from '../../support/learners.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000

t.test('a restart keeps what was measured', (t) => {
  const before = new SupplierStates()
  const outcome: Outcome = {
    arm: 'treated',
    held: false,
    inBa: 1,
    weight: 1,
    lnF: Math.log(0.9),
    sent: 0.9,
    winIn: 0.5,
    winOut: 0.48,
    sentAt: start,
  }
  for (let n = 0; n < 20_000; n++) {
    before.stateOf(1).exposed(outcome, 20_000)
    before.stateOf(1).resolved(outcome, 1)
  }
  const saved = { suppliers: before.saved().map((save) => save()), ...before.rest() }
  const after = new SupplierStates()
  drained(after.restoring(JSON.parse(JSON.stringify(saved))))
  t.same(after.saved()[0]!(), saved.suppliers[0])
  t.same(after.rest(), before.rest())
  const bids = before.stateOf(1).evidence.total('optimised', 'bids')
  for (let n = 0; n < 100; n++) after.stateOf(1).resolved(outcome, 1)
  t.ok(after.stateOf(1).evidence.total('optimised', 'bids') > 0.9 * bids)
  t.end()
})

t.test(
  'bids that were sent before the first fit are no evidence, but their wins count as results',
  (t) => {
    const states = new SupplierStates()
    const sent = (time: number): Outcome => ({
      ...{ arm: 'treated', held: false, inBa: 1, lnF: Math.log(0.9), sent: 0.9, sentAt: time },
      ...{ winIn: 0.5, winOut: 0.48, weight: 0.04 },
    })
    const settled = (time: number, bids: number) => {
      for (let n = 0; n < bids; n++) {
        states.stateOf(1).exposed(sent(time), 20_000)
        states.stateOf(1).resolved(sent(time), 1)
        states.stateOf(1).addWin(sent(time), 0.9, time + 100)
      }
    }
    const evidence = () => {
      const evidence = states.stateOf(1).evidence
      return [evidence.total('tried', 'bids'), evidence.total('tried', 'wins')]
    }
    settled(start, 100)
    t.same(evidence(), [100, 100])
    const { trust } = states.tried
    states.fitted(start + 1000)
    t.same(evidence(), [0, 0])
    settled(start + 999, 10)
    states.stateOf(1).withdrawn(sent(start + 999))
    states.stateOf(1).settled(sent(start + 999), 0.9)
    t.same(evidence(), [0, 0], 'its result came after the fit')
    t.ok(states.tried.trust > trust)
    settled(start + 1000, 10)
    states.fitted(start + 2000)
    t.same(evidence(), [10, 10], 'only the first fit begins anew')
    const again = new SupplierStates()
    drained(again.restoring({ suppliers: states.saved().map((save) => save()), ...states.rest() }))
    again.stateOf(1).resolved(sent(start + 999), 1)
    again.fitted(start + 2000)
    t.same(again.stateOf(1).evidence.total('tried', 'bids'), 10)
    t.end()
  },
)

t.test('bids of suppliers without win notices are no fall of the others', (t) => {
  const states = new SupplierStates()
  const random = source(7)
  const timeout = 15_000
  const sent = (time: number): Outcome => ({
    ...{ arm: 'treated', held: false, inBa: 1, lnF: Math.log(0.9), sent: 0.9, sentAt: time },
    ...{ winIn: 0.5, winOut: 0.48, weight: 1 },
  })
  const guards = new Set<string>()
  const due: Outcome[] = []
  const last = start + 20_000_000
  for (let now = start; now < last; now += 1000) {
    while (due.length > 0 && due[0]!.sentAt + 5000 <= now)
      states.stateOf(1).addWin(due.shift()!, 0.9, now)
    const bid = sent(now)
    states.stateOf(1).exposed(bid, timeout)
    if (random() < 0.5) due.push(bid)
    // The second supplier comes when the win rate is known.
    if (now > start + 10_000_000) states.stateOf(2).exposed(sent(now), timeout)
    states.advance(now, timeout)
    if (now > start + 5_000_000) guards.add(states.stateOf(1).guards.guard)
  }
  t.same([...guards], ['none'])
  t.equal(states.stateOf(2).guards.guard, 'start')
  t.end()
})

t.test('the evidence of a learner begins with its first fit', (t) => {
  const [learner] = trained(1, 3000, 100)
  const from = () => learner!['suppliers'].rest().pool.from
  t.equal(from(), 0)
  const now = trainedFrom + 400_000
  learner!.advance(now)
  learner!.applyRefit(refit(learner!.refitJob(now)!))
  t.equal(from(), now)
  t.equal(new OnlineLearner({}, learner!.snapshot())['suppliers'].rest().pool.from, now)
  t.end()
})

t.test('the last of thousands of suppliers is measured like the first', (t) => {
  const controls = new SupplierStates()
  const suppliers = Array.from({ length: 5000 }, (_each, index) => index)
  for (const supplier of suppliers) controls.stateOf(supplier).exposures++
  t.equal(suppliers.filter((supplier) => controls.stateOf(supplier).exposures !== 1).length, 0)
  t.equal(controls.saved().length, 5000)
  t.end()
})

t.test('a guard acts for a supplier that has no traffic any more', (t) => {
  const controls = new SupplierStates()
  const outcome: Outcome = {
    ...{ arm: 'treated', held: false, inBa: 1, lnF: Math.log(0.9), sent: 0.9 },
    ...{ winIn: 0.5, winOut: 0.48, weight: 0.04, sentAt: start },
  }
  for (const supplier of [1, 2]) {
    for (let n = 0; n < 60; n++) controls.stateOf(supplier).addWin(outcome, 0.9, start)
    for (let n = 0; n < 100; n++)
      controls.stateOf(supplier).exposed({ ...outcome, sentAt: start + 1000 }, 20_000)
  }
  for (let now = start + 1000; now < start + 20_000; now += 50) controls.advance(now, 20_000)
  t.equal(controls.stateOf(1).guards.acts, false, 'its notices may still come')
  controls.stateOf(1).addWin({ ...outcome, sentAt: start + 1000 }, 0.9, start + 20_000)
  for (let now = start + 20_000; now < start + 25_000; now += 50) controls.advance(now, 20_000)
  t.equal(controls.stateOf(1).guards.guard, 'none')
  t.equal(controls.stateOf(2).guards.guard, 'silence')
  t.end()
})

t.test('suppliers are visited when they are marked, or their oldest bids are due', (t) => {
  const visits = new Visits()
  const marks = [0, 1, 2].map((nth) => visits.addSupplier(nth))
  const visited = (before: number, oldest = Number.POSITIVE_INFINITY) => {
    const seen: number[] = []
    visits.run(before, (nth) => {
      seen.push(nth)
      return oldest
    })
    return seen
  }
  t.same(visited(10, 20), [0, 1, 2], 'all at first')
  t.same(visited(20), [])
  marks[1]!.mark()
  t.same(visited(20), [1])
  t.same(visited(21), [0, 2])
  t.same(visited(100), [], 'none has bids that wait')
  t.end()
})

/** Bids of one supplier at `nodes`, whose wins are notified to `to(node)`; deltas every 10 s. */
function cluster(nodes: number, to: (node: number) => number) {
  const controls = Array.from({ length: nodes }, () => new SupplierStates())
  const random = source(4)
  const due: [number, number, Outcome][] = []
  const alarmed = new Set<number>()
  for (let n = 0; n < 60_000; n++) {
    const now = start + n * 500
    const node = n % nodes
    const held = random() < 0.05
    const outcome: Outcome = {
      arm: held ? 'holdout' : 'treated',
      held: false,
      inBa: 1,
      weight: 1,
      lnF: held ? 0 : Math.log(0.9),
      sent: held ? 1 : 0.9,
      winIn: 0.5,
      winOut: held ? 0.5 : 0.48,
      sentAt: now,
    }
    const state = controls[node]!.stateOf(1)
    state.decided({ minWinRate: 0.5 }, 'revenue', {
      inBa: 1,
      out: 0.9,
      winIn: 0.5,
      winOut: 0.48,
      explored: false,
    })
    state.exposed(outcome, 20_000)
    state.resolved(outcome, 1)
    if (random() < (held ? 0.5 : 0.46)) due.push([now + 6000, to(node), outcome])
    while (due.length > 0 && due[0]![0] <= now) {
      const [, sentAt, won] = due.shift()!
      controls[sentAt]!.stateOf(1).addWin(won, won.sent, now)
    }
    if (n % 20 === 0) for (const control of controls) control.advance(now, 20_000)
    for (const [index, control] of controls.entries())
      if (control.stateOf(1).guards.acts) alarmed.add(index)
    if (n % 20 !== 0 || nodes === 1) continue
    const deltas = controls.map((control) => control.delta())
    deltas.forEach((delta, from) => {
      controls.forEach((control, index) => {
        if (index !== from) control.merge(delta)
      })
    })
  }
  return controls.map((control, index) => {
    const { measured } = control.stateOf(1).saved()
    return { multiple: measured.known.wins.mean, alarmed: alarmed.has(index) }
  })
}

t.test('wins that are all reported to one node bias no node, and cause no alarm', (t) => {
  const [alone] = cluster(1, () => 0)
  for (const to of [(node: number) => (node + 1) % 4, () => 0])
    for (const seen of cluster(4, to)) {
      t.ok(
        Math.abs(seen.multiple - alone!.multiple) < 0.25,
        `${seen.multiple}, alone ${alone!.multiple}`,
      )
      t.equal(seen.alarmed, false)
    }
  t.end()
})

t.test('a restart keeps multipliers, guard and what was measured, and says so', (t) => {
  const facts: BidFacts = { supplier: 'acme', mode: 'revenue', inBa: 2, floor: 0.1, publisher: 'p' }
  const policy: Policy = { minWinRate: 0.97, holdout: 0.05, explore: 0.01, minFactor: 0.5 }
  const learner = createLearner({ attributionWindow: 60_000 })
  const random = source(9)
  const due: [number, Uint8Array, number][] = []
  let now = start
  for (let n = 0; n < 6000; n++, now += 100) {
    const decision = learner.decide({ ...facts, inBa: 1 + random() }, policy, `a${n}`, now, random)
    const features = learner.expose(decision, decision.outBa, now)
    if (random() < 0.6 * decision.factor ** 2) due.push([now + 3000, features, decision.outBa])
    while (due.length > 0 && due[0]![0] <= now) {
      const [, bytes, cleared] = due.shift()!
      learner.win(bytes, cleared, now)
    }
    if (n % 10 === 0) learner.advance(now)
  }
  const again = createLearner({ attributionWindow: 60_000 }, learner.snapshot())
  const ask = (model: typeof learner) => model.decide(facts, policy, 'not held', now, () => 0.999)
  const [one, other] = [ask(learner), ask(again)]
  t.ok(one.theta! > 1 && one.lambda! > 0)
  t.equal(other.theta, one.theta)
  t.equal(other.lambda, one.lambda)
  t.equal(other.guard, one.guard)
  t.equal(other.outBa, one.outBa)
  t.end()
})

t.test('bids are held, unless notices say the lowest winning price', (t) => {
  const random = source(6)
  const heldShare = (says: 'nothing' | 'wins' | 'all') => {
    const controls = new SupplierStates()
    const state = controls.stateOf(1)
    const policy: Policy = { minWinRate: 0.97 }
    for (let n = 0; n < 2000; n++) {
      const outcome: Outcome = {
        ...{ arm: 'treated', held: false, inBa: 1, lnF: Math.log(0.9), sent: 0.9 },
        ...{ winIn: 0.5, winOut: 0.48, weight: 0.04, sentAt: start },
      }
      state.exposed(outcome, 20_000)
      state.resolved(outcome, 1)
      if (random() < 0.48) {
        state.addWin(outcome, 0.9, start)
        if (says !== 'nothing') state.learnLeast(outcome, 0.8)
      } else if (says === 'all') state.learnLeast(outcome, 2)
      state.decided(policy, 'revenue', {
        ...{ inBa: 1, out: 0.9, winIn: 0.5, winOut: 0.48 },
        explored: false,
      })
    }
    controls.advance(start, 20_000)
    return state.heldShare
  }
  t.ok(heldShare('nothing') > 0.05)
  t.ok(heldShare('wins') > 0.05, 'wins alone do not say what is lost')
  t.equal(heldShare('all'), 0)
  t.end()
})
