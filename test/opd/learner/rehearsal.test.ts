/** What settled is taught again: with what became of it, within its time, and not by a model that stands still. */
import t from 'tap'
import { featureBytes } from '../../../opd/learner/features.ts'
import { Rehearsal, rehearsed } from '../../../opd/learner/train/experience-replay.ts'
import { createLearner } from '../../../opd/learner.ts'
import { bid, chances, long, off, pure, start, taught, wins } from '../../support/learners.ts'
import { source } from '../../support/random.ts'

const row = (n: number) => {
  const bytes = new Uint8Array(featureBytes)
  new DataView(bytes.buffer).setUint32(1, n)
  return bytes
}
const nameOf = (features: Uint8Array) =>
  new DataView(features.buffer, features.byteOffset).getUint32(1)

/** What it teaches over calls of 100 ms, by row. */
function lessons(rehearsal: Rehearsal, calls: number, from = 0) {
  const taught = new Map<number, boolean>()
  let [most, all] = [0, 0]
  for (let n = 0; n < calls; n++) {
    let count = 0
    rehearsal.rehearse(start + from + 100 * n, (features, won) => {
      taught.set(nameOf(features), won)
      count++
    })
    most = Math.max(most, count)
    all += count
  }
  return { taught, most, all }
}

t.test('a row is taught with what became of it, whichever was told first', (t) => {
  const rehearsal = new Rehearsal()
  for (let n = 0; n < 1000; n++) {
    if (n % 4 === 1) rehearsal.became('won', row(n))
    rehearsal.add(row(n))
    if (n % 4 === 2) rehearsal.became('won', row(n))
    if (n % 4 === 3) rehearsal.became('void', row(n))
  }
  const { taught } = lessons(rehearsal, 50)
  t.ok(taught.size > 100)
  t.ok([...taught.keys()].every((n) => n % 4 !== 3))
  t.ok([...taught].every(([n, won]) => won === (n % 4 === 1 || n % 4 === 2)))
  t.end()
})

t.test('as much is taught again as settled, and no more than there is time for', (t) => {
  const rehearsal = new Rehearsal()
  for (let n = 0; n < 100_000; n++) rehearsal.add(row(n))
  const { taught, most, all } = lessons(rehearsal, 100)
  t.ok(most <= 300, `${most} lessons in one call`)
  t.ok(all > 100 && all < 2000, `${all} lessons`)
  t.ok([...taught.keys()].every((n) => n >= 100_000 - rehearsed))
  t.same(lessons(rehearsal, 100, 10_000).all, 0)
  rehearsal.add(row(1))
  t.same(lessons(rehearsal, 1, 20_000).all, 2)
  t.same(lessons(rehearsal, 1, 20_000).all, 0, 'the same time again')
  t.end()
})

t.test('a node that was restarted does not take its first rows for all there is', (t) => {
  const rehearsal = new Rehearsal()
  rehearsal.settled = 1_000_000
  for (let n = 0; n < 1000; n++) rehearsal.add(row(n))
  const { all } = lessons(rehearsal, 100)
  t.ok(all < 100, `${all} lessons`)
  t.end()
})

t.test('a curve is found sooner than by one look at each bid', (t) => {
  const far = off(taught(1, 10_000, 100)[0]!)
  t.ok(far < 0.0505, `${far} off`)
  t.end()
})

t.test('a model that stands still is taught nothing again', (t) => {
  const learner = createLearner({})
  const random = source(7)
  let now = start
  for (let n = 0; n < 2000; n++, now += 100) {
    learner.advance(now)
    const facts = bid(1 + random(), n % 8)
    const decision = learner.decide(facts, pure, `k${n}`, now, random)
    const features = learner.expose(decision, decision.outBa, now)
    if (random() < wins(decision.outBa, n % 8)) learner.win(features, decision.outBa, now)
  }
  learner.freeze!(true)
  learner.advance(now + long)
  const before = chances(learner)
  for (let n = 1; n < 100; n++) learner.advance(now + long + 100 * n)
  t.same(chances(learner), before)
  learner.freeze!(false)
  for (let n = 100; n < 200; n++) learner.advance(now + long + 100 * n)
  t.notSame(chances(learner), before)
  t.end()
})
