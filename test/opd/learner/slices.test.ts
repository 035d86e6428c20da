import t, { type Test as Tap } from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import { OnlineLearner } from '../../../opd/learner/learner.ts'
import { createLearner } from '../../../opd/learner.ts'
import { apart, bid, chances, pure, start, trained } from '../../support/learners.ts'

t.test('with slices, merged rows wait for advance, and a snapshot contains them', (t) => {
  const [other] = trained(1, 2500, 40)
  const delta = other!.delta()
  const all = createLearner({})
  all.merge(delta)
  const learner = createLearner({ slices: true })
  learner.merge(delta)
  const cold = chances(createLearner({}))
  t.same(chances(learner), cold, 'not yet')
  learner.advance(start)
  t.notSame(chances(learner), cold)
  t.ok(apart(learner, all) > 1e-6, 'some of it')
  const again = createLearner({}, learner.snapshot())
  t.ok(apart(again, all) < 1e-6, 'the rest was in the snapshot')
  for (let n = 0; n < 20; n++) learner.advance(start)
  t.ok(apart(learner, all) < 1e-9)
  t.end()
})

t.test('a snapshot in slices is of one moment, whatever happens between slices', (t) => {
  const learner = trained(1, 3000, 40)[0]!
  const before = chances(learner)
  const [other] = trained(1, 1500, 30)
  let [slices, takings] = [0, 0]
  let pieces: Uint8Array[] = []
  for (const made = learner.snapshotting(() => takings++); ; slices++) {
    const { done, value } = made.next()
    if (done) {
      pieces = value
      break
    }
    if (takings === 1) {
      learner.merge(other!.delta())
      learner.win(
        learner.expose(
          learner.decide(bid(2, 1), pure, 'k', start, () => 0.9),
          1,
          start,
        ),
        1,
        start,
      )
    }
  }
  t.ok(slices > 10, `${slices} slices`)
  t.equal(takings, 1)
  t.notSame(chances(learner), before)
  t.same(chances(createLearner({}, new Uint8Array(Buffer.concat(pieces)))), before)
  t.same(chances(createLearner({}, learner.snapshot())), chances(learner))
  t.end()
})

/** Counts what is done number by number: values of typed arrays that are iterated, numbers that are written, and views. */
function counted(t: Tap): () => number {
  let count = 0
  const typed = Object.getPrototypeOf(Uint8Array.prototype) as Uint8Array
  const [iterate, view] = [typed[Symbol.iterator], typed.subarray]
  const write = DataView.prototype.setFloat64
  const replaced = {
    *[Symbol.iterator](this: Uint8Array) {
      count += this.length
      yield* { [Symbol.iterator]: () => iterate.call(this) }
    },
    subarray(this: Uint8Array, ...range: [number, number]) {
      count++
      return view.apply(this, range)
    },
  }
  Object.assign(typed, replaced)
  DataView.prototype.setFloat64 = function (...given) {
    count++
    write.apply(this, given)
  }
  t.teardown(() => {
    Object.assign(typed, { [Symbol.iterator]: iterate, subarray: view })
    DataView.prototype.setFloat64 = write
  })
  return () => count
}

t.test(
  'no slice of a snapshot does much, whatever the number of suppliers and of rows that wait',
  (t) => {
    const [other, learner] = [createLearner({}), new OnlineLearner({ slices: true })]
    const facts = bid(2, 1)
    for (let n = 0; n < 1500; n++) {
      const decided = other.decide({ ...facts, supplier: `s${n}` }, pure, 'k', start, () => 0.9)
      other.win(other.expose(decided, 1.5, start), 1.4, start + 1000)
    }
    learner.merge(other.delta())
    const count = counted(t)
    let [before, most, slices] = [0, 0, 0]
    for (const made = learner.snapshotting(); ; slices++) {
      const { done } = made.next()
      most = Math.max(most, count() - before)
      before = count()
      if (done) break
    }
    t.ok(before > 150_000, `${before} in all`)
    t.ok(most < 25_000, `${most} in one of ${slices} slices`)
    t.end()
  },
)

t.test('a learner is restored in slices, as it is restored at once', (t) => {
  const learner = trained(1, 3000, 40)[0]!
  const snapshot = learner.snapshot()
  let slices = 0
  for (const made = OnlineLearner.restored({ carries: false }, snapshot); ; slices++) {
    const { done, value } = made.next()
    if (!done) continue
    t.same(chances(value), chances(learner))
    t.same(value.snapshot(), createLearner({ carries: false }, snapshot).snapshot())
    break
  }
  // 4 MiB of weights are checked, copied and set in slices of 512 KiB.
  t.ok(slices > 24, `${slices} slices`)
  const damaged = snapshot.slice()
  damaged[5000]! ^= 1
  t.throws(() => drained(OnlineLearner.restored({}, damaged)), { name: 'SnapshotError' })
  t.end()
})
