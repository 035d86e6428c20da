/** Work of one turn of the event loop: what finds it spent waits, in the order of arrival. */
import t from 'tap'
import { LoopTurn } from '../../../opd/base/loop-turn.ts'
import { holdLoop } from '../../support/until.ts'

/** Keeps the processor busy for longer than a turn. */
const spendTurn = () => holdLoop(4)
const immediate = () => new Promise((resolve) => setImmediate(resolve))

t.test('work is done at once until the turn is spent', async (t) => {
  const turn = new LoopTurn()
  const done: number[] = []
  turn.run(() => done.push(1))
  t.same(done, [1])
  spendTurn()
  t.equal(turn.isSpent, true)
  turn.run(() => done.push(2))
  t.same(done, [1], 'it waits')
  await immediate()
  t.same(done, [1, 2])
})

t.test('the event loop goes on between two works that each spend a turn', async (t) => {
  const turn = new LoopTurn()
  const order: string[] = []
  for (const name of ['a', 'b', 'c'])
    turn.wait(() => {
      order.push(name)
      spendTurn()
    })
  for (let count = 0; count < 3; count++) {
    await immediate()
    order.push('loop')
  }
  t.same(order, ['a', 'loop', 'b', 'loop', 'c', 'loop'])
})

t.test('work that awaits a later turn spends it as other work does', async (t) => {
  const turn = new LoopTurn()
  const order: string[] = []
  const works = ['a', 'b'].map(async (name) => {
    await turn.next()
    order.push(name)
    spendTurn()
  })
  await immediate()
  order.push('loop')
  await Promise.all(works)
  t.same(order, ['a', 'loop', 'b'])
})
