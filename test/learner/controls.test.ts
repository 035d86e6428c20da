/** Multipliers, what the model is wrong by, seats and publishers of their own, nodes that share: small deterministic runs. */
import t from 'tap'
import { type Beta, experience, keptBy, ownBeta, pooledBeta } from '../../opd/learner/bias.ts'
import { Controller, type Standing } from '../../opd/learner/controller.ts'
import { Controls } from '../../opd/learner/controls.ts'
import { depthOf, Evidence } from '../../opd/learner/evidence.ts'
import type { Outcome } from '../../opd/learner/outcome.ts'
import { Segments } from '../../opd/learner/segments.ts'
import { SupplierState } from '../../opd/learner/supplier.ts'
import { type BidFacts, createLearner, type Policy } from '../../opd/learner.ts'

function source(seed: number): () => number {
  let state = Math.imul(seed, 0x9e3779b1) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let z = Math.imul(state ^ (state >>> 15), state | 1)
    z ^= z + Math.imul(z ^ (z >>> 7), z | 61)
    return ((z ^ (z >>> 14)) >>> 0) / 2 ** 32
  }
}

const start = 1_760_000_000_000
const exact: Standing = { kept: 0.97, error: 0, beta: 0 }

/** Decisions of a model that is right, W(f) = .5 f^3: what the multipliers settle at. */
function settled(policy: Policy, mode: 'revenue' | 'margin', decisions: number) {
  const controller = new Controller()
  const evidence = new Evidence()
  const random = source(1)
  const sums = { in: 0, out: 0, spendIn: 0, spendOut: 0, margin: 0 }
  for (let n = 0; n < decisions; n++) {
    const inBa = Math.exp(random() * 2 - 1)
    const reward = controller.theta(policy, mode) + controller.lambda(policy, mode) / inBa
    // argmax (reward - f) f^3
    const f = Math.max(0.05, Math.min(1, 0.75 * reward))
    const [winIn, winOut, out] = [0.5, 0.5 * f ** 3, inBa * f]
    controller.decided(policy, mode, { inBa, out, winIn, winOut }, evidence, exact, exact, false)
    if (random() < winOut) evidence.won('deep', inBa, out, out)
    evidence.exposed('deep', { inBa, sent: out, winIn, winSent: winOut })
    if (n < decisions / 2) continue
    sums.in += winIn
    sums.out += winOut
    sums.spendIn += winIn * inBa
    sums.spendOut += winOut * inBa
    sums.margin += winOut * (inBa - out)
  }
  return {
    wins: sums.out / sums.in,
    spend: sums.spendOut / sums.spendIn,
    margin: sums.margin / sums.spendOut,
    controller,
  }
}

t.test('wins and spend are both held, with little slack', (t) => {
  const { wins, spend } = settled({ minWinRate: 0.97, minSpend: 0.97 }, 'revenue', 20_000)
  t.ok(Math.min(wins, spend) > 0.968 && Math.min(wins, spend) < 0.975, `${wins}, ${spend}`)
  const onlyWins = settled({ minWinRate: 0.97, minSpend: 0 }, 'revenue', 20_000)
  t.ok(Math.abs(onlyWins.wins - 0.971) < 0.004, `wins ${onlyWins.wins}`)
  t.equal(onlyWins.controller.spend, 0)
  const other = settled({ minWinRate: 0.8, minSpend: 0.95 }, 'revenue', 20_000)
  t.ok(Math.abs(other.spend - 0.951) < 0.004, `spend ${other.spend}`)
  t.end()
})

t.test('minSpend is minWinRate where it is not given', (t) => {
  const { spend } = settled({ minWinRate: 0.9 }, 'revenue', 20_000)
  t.ok(spend > 0.895, `spend ${spend}`)
  t.end()
})

t.test('no floor, no multiplier', (t) => {
  const controller = new Controller()
  const policy = { minWinRate: 0 }
  t.equal(controller.theta(policy, 'revenue'), 1)
  t.equal(controller.lambda(policy, 'revenue'), 0)
  t.end()
})

t.test('margin mode: the share is the target', (t) => {
  for (const targetMargin of [0.05, 0.15, 0.25]) {
    const { margin } = settled({ targetMargin }, 'margin', 40_000)
    t.ok(Math.abs(margin - targetMargin) < 0.003, `${margin} for ${targetMargin}`)
  }
  t.end()
})

t.test(
  'prices that are held up do not wind the multipliers down, and numbers that are none do not stay',
  (t) => {
    const controller = new Controller()
    const evidence = new Evidence()
    const policy = { minWinRate: 0.97 }
    const ask = (
      bid: { inBa: number; out: number; winIn: number; winOut: number },
      shallow: boolean,
    ) => controller.decided(policy, 'revenue', bid, evidence, { ...exact }, { ...exact }, shallow)
    for (let n = 0; n < 5000; n++) ask({ inBa: 1, out: 1, winIn: 0.5, winOut: 0.5 }, true)
    t.equal(controller.spend, new Controller().spend)
    for (let n = 0; n < 5000; n++) ask({ inBa: 1, out: 0.5, winIn: 0.5, winOut: 0.1 }, true)
    t.ok(controller.spend > 10, 'up they go')
    controller.decided(
      policy,
      'revenue',
      { inBa: 1, out: 0.9, winIn: 0.5, winOut: 0.4 },
      evidence,
      { ...exact, beta: Number.NaN },
      { ...exact, beta: Number.NaN },
      false,
    )
    t.ok(Number.isFinite(controller.theta(policy, 'revenue')))
    t.end()
  },
)

/** A model that is wrong by `beta` between prices: W says .5 f^.3 at all prices, the truth is (1 - beta depth) of it. */
function biased(beta: number, holdout: number, bids: number, seed: number, lost = 0): Evidence {
  const evidence = new Evidence(100)
  const random = source(seed)
  for (let n = 0; n < bids; n++) {
    const f = 0.7 + 0.3 * random()
    const held = random() < holdout
    const winOut = 0.5 * f ** 0.3
    const truth = held ? 0.5 : winOut * (1 - beta * depthOf(1, f))
    const group = held ? 'heldDeep' : 'deep'
    evidence.exposed(group, {
      inBa: 1,
      sent: held ? 1 : f,
      winIn: 0.5,
      winSent: held ? 0.5 : winOut,
    })
    if (random() < truth * (1 - lost)) evidence.won(group, 1, held ? 1 : f, held ? 1 : f)
  }
  return evidence
}

t.test(
  'what the model is wrong by is measured by the holdout, whatever share of notices is lost',
  (t) => {
    for (const beta of [0, 0.5, 1.2])
      for (const lost of [0, 0.3]) {
        const evidence = biased(beta, 0.1, 400_000, 7, lost)
        const into: Beta = { ...experience }
        const found = pooledBeta(evidence, 'wins', into)
        t.ok(
          Math.abs(found.at - beta) < 3 * found.error,
          `${found.at} ± ${found.error} for ${beta}`,
        )
        t.ok(found.error < 0.15)
        const kept = keptBy(evidence, 'wins', found)
        let truth = 0
        let own = 0
        const random = source(7)
        for (let n = 0; n < 20_000; n++) {
          const f = 0.7 + 0.3 * random()
          truth += f ** 0.3 * (1 - beta * depthOf(1, f))
          own++
        }
        t.ok(Math.abs(kept - truth / own) < 0.02, `${kept} for ${truth / own}`)
      }
    t.end()
  },
)

t.test('what was measured is not forgotten by a restart', (t) => {
  const before = new SupplierState(new Evidence(4), new Segments())
  const outcome: Outcome = {
    arm: 'treated',
    lnIn: 0,
    lnF: Math.log(0.9),
    sent: 0.9,
    winIn: 0.5,
    winOut: 0.48,
    at: start,
  }
  for (let n = 0; n < 20_000; n++) before.exposed(outcome, 20_000, 2, 3)
  const bids = before.evidence.total('optimised', 'bids')
  const pool = new Evidence(4)
  const after = new SupplierState(pool, new Segments())
  after.restore(JSON.parse(JSON.stringify(before.saved())))
  for (let n = 0; n < 100; n++) after.exposed(outcome, 20_000, 2, 3)
  t.ok(after.evidence.total('optimised', 'bids') > 0.9 * bids)
  t.ok(pool.total('optimised', 'bids') > 0.9 * bids)
  t.ok(after.evidence.get('beside', 'bids') > 0.9 * before.evidence.get('beside', 'bids'))
  t.end()
})

t.test('a model whose level moves by the hour is no difference between prices', (t) => {
  const evidence = new Evidence()
  const random = source(11)
  for (let n = 0; n < 300_000; n++) {
    // Off by a tenth for most of the time, right at the end: the holdout remembers both, the treated the end alone.
    const level = n < 270_000 ? 0.9 : 1
    const f = 0.7 + 0.3 * random()
    const held = random() < 0.05
    const winOut = 0.5 * f ** 0.3
    const seen = { inBa: 1, sent: held ? 1 : f, winIn: 0.5, winSent: held ? 0.5 : winOut }
    const group = held ? 'heldDeep' : 'deep'
    evidence.exposed(group, seen)
    if (random() < level * (held ? 0.5 : winOut * (1 - 0.5 * depthOf(1, f))))
      evidence.won(group, 1, seen.sent, seen.sent)
  }
  const { at } = pooledBeta(evidence, 'wins', { ...experience })
  t.ok(Math.abs(at - 0.5) < 0.15, `${at} for .5`)
  t.end()
})

t.test('the less is known of what is kept, the more is aimed at', (t) => {
  const aimed = (error: number) => {
    const controller = new Controller()
    const random = source(3)
    let [kept, own] = [0, 0]
    for (let n = 0; n < 20_000; n++) {
      const inBa = Math.exp(random() * 2 - 1)
      const policy = { minWinRate: 0.97 }
      const reward =
        controller.theta(policy, 'revenue') + controller.lambda(policy, 'revenue') / inBa
      const f = Math.max(0.05, Math.min(1, 0.75 * reward))
      const bid = { inBa, out: inBa * f, winIn: 0.5, winOut: 0.5 * f ** 3 }
      const standing: Standing = { kept: 0.975, error, beta: 0 }
      controller.decided(policy, 'revenue', bid, new Evidence(), standing, standing, false)
      if (n < 10_000) continue
      own += bid.winIn * inBa
      kept += bid.winOut * inBa
    }
    return kept / own
  }
  const [sure, unsure] = [aimed(0), aimed(0.01)]
  t.ok(unsure > sure + 0.004 && unsure < 0.985, `${sure}, unsure ${unsure}`)
  t.end()
})

t.test('before anything is measured experience speaks, for one supplier all do', (t) => {
  const into: Beta = { at: 0, error: 0 }
  t.same(pooledBeta(new Evidence(), 'spend', into).at, experience.at)
  const all: Beta = { at: 0.9, error: 0.01 }
  const own = ownBeta(new Evidence(), 'wins', all, into)
  t.ok(Math.abs(own.at - 0.9) < 1e-9 && own.error > 0.1)
  t.equal(keptBy(new Evidence(), 'wins', all), 1)
  t.end()
})

t.test(
  'a publisher that keeps far less than the floor is raised, others are not, and lost notices raise none',
  (t) => {
    for (const lost of [0, 0.4]) {
      const segments = new Segments()
      const random = source(2)
      const told = (1 - lost) * 0.97
      for (let n = 0; n < 60_000; n++) {
        for (const [key, kept] of [
          [1, 0.85],
          [2, 0.97],
        ] as const) {
          const segment = segments.exposed(key, 0.5)
          segments.judge(segment, told, 0.97, 0.97)
          if (random() < 0.5 * kept * (1 - lost)) segments.won(key)
        }
        if (n === 19_000) t.equal(segments.boost(1), 1, 'not before it has settled 20,000')
      }
      t.ok(segments.boost(1) > 2, `the victim's ${segments.boost(1)}`)
      t.equal(segments.boost(2), 1)
    }
    t.end()
  },
)

t.test('the table of seats and publishers is bounded, and keeps the busy', (t) => {
  const segments = new Segments()
  for (let n = 0; n < 200_000; n++) {
    segments.exposed(1_000_000 + n, 0.5)
    if (n % 10 === 0) segments.exposed(7, 0.5)
  }
  t.ok(segments.size <= 4096)
  t.ok(segments.exposed(7, 0.5).bids > 100)
  t.end()
})

/** Bids of one supplier at `nodes`, whose wins are told to `to(node)`; deltas every 10 s. */
function cluster(nodes: number, to: (node: number) => number) {
  const controls = Array.from({ length: nodes }, () => new Controls())
  const random = source(4)
  const due: [number, number, Outcome][] = []
  for (let n = 0; n < 60_000; n++) {
    const now = start + n * 500
    const node = n % nodes
    const held = random() < 0.05
    const outcome: Outcome = {
      arm: held ? 'holdout' : 'treated',
      lnIn: 0,
      lnF: held ? 0 : Math.log(0.9),
      sent: held ? 1 : 0.9,
      winIn: 0.5,
      winOut: 0.48,
      at: now,
    }
    const state = controls[node]!.of(1)
    state.decided(
      { minWinRate: 0.5 },
      'revenue',
      { inBa: 1, out: 0.9, winIn: 0.5, winOut: 0.48 },
      now,
    )
    state.exposed(outcome, 20_000, 2, 3)
    if (random() < (held ? 0.5 : 0.46)) due.push([now + 6000, to(node), outcome])
    while (due.length > 0 && due[0]![0] <= now) {
      const [, at, won] = due.shift()!
      controls[at]!.of(1).won(won, won.sent, now, 2, 3)
    }
    if (n % 20 === 0) for (const each of controls) each.advance(now, 20_000)
    if (n % 20 !== 0 || nodes === 1) continue
    const deltas = controls.map((each) => each.delta())
    deltas.forEach((delta, from) => {
      controls.forEach((each, at) => {
        if (at !== from) each.merge(delta)
      })
    })
  }
  return controls.map((each) => each.of(1).explained())
}

t.test('wins that are all told to one node bias no node, and alarm none', (t) => {
  const [alone] = cluster(1, () => 0)
  for (const to of [(node: number) => (node + 1) % 4, () => 0])
    for (const seen of cluster(4, to)) {
      t.ok(Math.abs(seen.wins - alone!.wins) < 0.01, `${seen.wins}, alone ${alone!.wins}`)
      t.same(seen.alarms, {})
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
  const ask = (of: typeof learner) => of.decide(facts, policy, 'not held', now, () => 0.999)
  const [one, other] = [ask(learner), ask(again)]
  t.ok(one.theta! > 1 && one.lambda! > 0)
  t.equal(other.theta, one.theta)
  t.equal(other.lambda, one.lambda)
  t.equal(other.guard, one.guard)
  t.equal(other.outBa, one.outBa)
  t.end()
})
