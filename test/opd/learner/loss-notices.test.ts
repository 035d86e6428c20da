/** The loss that is counted from lowest winning prices is right whatever share of the losses has a notice. */
import t from 'tap'
import type { Outcome } from '../../../opd/learner/control/evidence.ts'
import { SupplierStates } from '../../../opd/learner/control/supplier-states.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000

/** Bids that win half at their own price and lose 6 % of that; `notified`: the share of losses that have a notice. */
function counted(notified: number, nodes = 1): { losses: number; known: number } {
  const controls = Array.from({ length: nodes }, () => new SupplierStates())
  const random = source(3)
  const any = () => controls[Math.floor(nodes * random())]!.stateOf(1)
  for (let n = 0; n < 60_000; n++) {
    const outcome: Outcome = {
      arm: 'treated',
      held: false,
      inBa: 1,
      weight: 1,
      lnF: Math.log(0.9),
      sent: 0.9,
      winIn: 0.5,
      winOut: 0.49,
      sentAt: start + n,
    }
    any().exposed(outcome, 20_000)
    const least = random() < 0.47 ? 0.8 : random() < 0.03 / 0.53 ? 0.95 : 2
    if (least <= 0.9) {
      const state = any()
      state.addWin(outcome, 0.9, start + n)
      state.learnLeast(outcome, least)
    } else if (random() < notified) any().learnLeast(outcome, least)
  }
  let [known, knownIn] = [0, 0]
  for (const control of controls) {
    known += control.stateOf(1).evidence.total('optimised', 'knownWins')
    knownIn += control.stateOf(1).evidence.total('optimised', 'knownWinsIn')
  }
  return { losses: 1 - known / knownIn, known: knownIn }
}

t.test('if all losses are reported, all are counted', (t) => {
  for (const nodes of [1, 4]) {
    const { losses } = counted(0.97, nodes)
    t.ok(Math.abs(losses - 0.06) < 0.006, `${losses}`)
  }
  t.end()
})

t.test('reported losses are extrapolated to all losses', (t) => {
  const { losses } = counted(0.6)
  t.ok(losses > 0.05 && losses < 0.068, `${losses}`)
  t.end()
})

t.test('if few losses are reported, none is counted', (t) => {
  for (const notified of [0, 0.3]) t.equal(counted(notified).known, 0)
  t.end()
})
