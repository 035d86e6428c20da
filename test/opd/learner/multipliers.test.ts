/** Multipliers: what they settle at, what they aim at, what does not move them. */
import t from 'tap'
import { Evidence } from '../../../opd/learner/control/evidence.ts'
import { type Known, Multipliers } from '../../../opd/learner/control/multipliers.ts'
import type { Policy } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const exact = { mean: 1, deviation: 0 }
const known: Known = { wins: exact, spend: exact, trust: 1 }

/** Decisions of a model that is right, W(f) = .5 f^3: what the multipliers settle at. */
function settled(policy: Policy, mode: 'revenue' | 'margin', decisions: number) {
  const controller = new Multipliers()
  const evidence = new Evidence()
  const random = source(1)
  const sums = { in: 0, out: 0, spendIn: 0, spendOut: 0, margin: 0 }
  for (let n = 0; n < decisions; n++) {
    const inBa = Math.exp(random() * 2 - 1)
    const reward = controller.theta(policy, mode) + controller.lambda(policy, mode) / inBa
    // argmax (reward - f) f^3
    const f = Math.max(0.05, Math.min(1, 0.75 * reward))
    const [winIn, winOut, out] = [0.5, 0.5 * f ** 3, inBa * f]
    controller.decided(
      policy,
      mode,
      { inBa, out, winIn, winOut, explored: false },
      evidence,
      known,
      false,
    )
    if (random() < winOut) evidence.addWin('lowered', inBa, out, 1)
    evidence.exposed('lowered', { inBa, sent: out, winIn, winOut, weight: 1 })
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

t.test('wins and spend are both kept, and nearly all of what may be lost is used', (t) => {
  const { wins, spend } = settled({ minWinRate: 0.97, minSpend: 0.97 }, 'revenue', 20_000)
  t.ok(Math.min(wins, spend) > 0.966 && Math.min(wins, spend) < 0.972, `${wins}, ${spend}`)
  const onlyWins = settled({ minWinRate: 0.97, minSpend: 0 }, 'revenue', 20_000)
  t.ok(Math.abs(onlyWins.wins - 0.969) < 0.004, `wins ${onlyWins.wins}`)
  t.equal(onlyWins.controller.spend, 0)
  const other = settled({ minWinRate: 0.8, minSpend: 0.95 }, 'revenue', 20_000)
  t.ok(Math.abs(other.spend - 0.949) < 0.005, `spend ${other.spend}`)
  t.end()
})

t.test('one bid of a price beyond all others moves no multiplier out of reach', (t) => {
  const policy: Policy = { targetMargin: 0.15 }
  const { controller } = settled(policy, 'margin', 5000)
  const before = controller.lambda(policy, 'margin')
  const dear = { inBa: 1e8, out: 1e8, winIn: 0.5, winOut: 0.5, explored: false }
  controller.decided(policy, 'margin', dear, new Evidence(), known, false)
  const after = controller.lambda(policy, 'margin')
  t.ok(after < 2 * before && after > before / 4, `${before} CPM, then ${after}`)
  t.end()
})

t.test('minSpend is minWinRate if it is absent', (t) => {
  const { spend } = settled({ minWinRate: 0.9 }, 'revenue', 20_000)
  t.ok(spend > 0.887, `spend ${spend}`)
  t.end()
})

t.test('without a floor the multipliers stay at 1 and 0', (t) => {
  const controller = new Multipliers()
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
  'prices that are held up do not wind the multipliers down, and results that are not finite do not stay',
  (t) => {
    const controller = new Multipliers()
    const evidence = new Evidence()
    const policy = { minWinRate: 0.97 }
    const ask = (
      bid: { inBa: number; out: number; winIn: number; winOut: number },
      shallow: boolean,
    ) =>
      controller.decided(policy, 'revenue', { ...bid, explored: false }, evidence, known, shallow)
    for (let n = 0; n < 5000; n++) ask({ inBa: 1, out: 1, winIn: 0.5, winOut: 0.5 }, true)
    t.equal(controller.spend, new Multipliers().spend)
    for (let n = 0; n < 5000; n++) ask({ inBa: 1, out: 0.5, winIn: 0.5, winOut: 0.1 }, true)
    t.ok(controller.spend > 10, 'up they go')
    const notFinite = { mean: Number.NaN, deviation: 0 }
    controller.decided(
      policy,
      'revenue',
      { inBa: 1, out: 0.9, winIn: 0.5, winOut: 0.4, explored: false },
      evidence,
      { wins: notFinite, spend: notFinite, trust: 1 },
      false,
    )
    t.ok(Number.isFinite(controller.theta(policy, 'revenue')))
    t.end()
  },
)

/** The share of spend that is kept in the last half of 20,000 bids. `trueLoss`: the true loss over the expected one. */
function aimed({ trueLoss = 1, mean = 1, deviation = 0, trust = 1 }) {
  const controller = new Multipliers()
  const random = source(3)
  const policy = { minWinRate: 0.97 }
  const multiple = { mean, deviation }
  let [kept, unlowered] = [0, 0]
  for (let n = 0; n < 20_000; n++) {
    const inBa = Math.exp(random() * 2 - 1)
    const reward = controller.theta(policy, 'revenue') + controller.lambda(policy, 'revenue') / inBa
    const f = Math.max(0.05, Math.min(1, 0.75 * reward))
    const bid = { inBa, out: inBa * f, winIn: 0.5, winOut: 0.5 * f ** 3, explored: false }
    controller.decided(
      policy,
      'revenue',
      bid,
      new Evidence(),
      { wins: multiple, spend: multiple, trust },
      false,
    )
    if (n < 10_000) continue
    unlowered += bid.winIn * inBa
    kept += (bid.winIn - trueLoss * (bid.winIn - bid.winOut)) * inBa
  }
  return kept / unlowered
}

t.test('a larger standard error of the loss leaves more of the permitted loss unused', (t) => {
  const [sure, unsure] = [aimed({}), aimed({ deviation: 0.5 })]
  t.ok(unsure > sure + 0.004 && unsure < 0.99, `${sure}, unsure ${unsure}`)
  t.end()
})

t.test('the measured multiple of the loss keeps the floor that the model would break', (t) => {
  const kept = aimed({ trueLoss: 2, mean: 2 })
  t.ok(kept > 0.966 && kept < 0.973, `${kept}`)
  t.ok(aimed({ trueLoss: 2, mean: 1 }) < 0.945)
  t.end()
})

t.test('without wins at lower prices nothing may be lost', (t) => {
  t.ok(aimed({ trust: 0 }) > 0.999)
  t.end()
})

t.test('the loss of random prices counts against the floor but moves no multiplier', (t) => {
  const controller = new Multipliers()
  const policy = { minWinRate: 0.97 }
  const explored = { inBa: 1, out: 0.5, winIn: 0.5, winOut: 0.1, explored: true }
  for (let n = 0; n < 500; n++)
    controller.decided(policy, 'revenue', explored, new Evidence(), known, false)
  t.equal(controller.spend, new Multipliers().spend)
  const lowered = { inBa: 1, out: 0.98, winIn: 0.5, winOut: 0.495, explored: false }
  controller.decided(policy, 'revenue', lowered, new Evidence(), known, false)
  t.ok(controller.spend > new Multipliers().spend, 'what was lost is paid back')
  t.end()
})

t.test(
  'bids of a time without a fit, when ten times the wins were expected, count like others',
  (t) => {
    const controller = new Multipliers()
    const policy = { minWinRate: 0.97 }
    const decide = (winIn: number, loss: number) =>
      controller.decided(
        policy,
        'revenue',
        { inBa: 1, out: 0.9, winIn, winOut: winIn * (1 - loss), explored: false },
        new Evidence(),
        known,
        false,
      )
    for (let n = 0; n < 1000; n++) decide(0.3, 0.05)
    for (let n = 0; n < 6000; n++) decide(0.03, 0)
    // Not at its lower bound, from which it could not fall.
    Object.assign(controller, { spend: 3, wins: 3 })
    for (let n = 0; n < 100; n++) decide(0.03, 0.01)
    t.ok(controller.spend < 3, '1,000 bids that lost 5 % are made up for by 6,000 that lost none')
    t.end()
  },
)

t.test('a multiplier at its lower bound rises again within 1,000 bids', (t) => {
  const controller = new Multipliers()
  const policy = { minWinRate: 0.97 }
  const decide = (loss: number) =>
    controller.decided(
      policy,
      'revenue',
      { inBa: 1, out: 0.9, winIn: 0.3, winOut: 0.3 * (1 - loss), explored: false },
      new Evidence(),
      known,
      false,
    )
  for (let n = 0; n < 20_000; n++) decide(0)
  const lowest = controller.spend
  for (let n = 0; n < 1000; n++) decide(0.06)
  t.ok(controller.spend > 0.5, `${lowest} to ${controller.spend}`)
  t.end()
})

t.test('what may be lost of a bid is less the less is known of the multiple', (t) => {
  const policy = { minWinRate: 0.97 }
  const rests = [0, 0.5].map((deviation) => {
    const controller = new Multipliers()
    const multiple = { mean: 1, deviation }
    // Nothing was lost so far, so no earlier loss is made up for.
    for (let n = 0; n < 10_000; n++)
      controller.decided(
        policy,
        'revenue',
        { inBa: 1, out: 0.9, winIn: 0.3, winOut: 0.3 * (n < 9000 ? 1 : 0.97), explored: false },
        new Evidence(),
        { wins: multiple, spend: multiple, trust: 1 },
        false,
      )
    return controller.spend
  })
  t.ok(rests[0]! < rests[1]!, `${rests}`)
  t.end()
})
