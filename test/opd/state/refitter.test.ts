/** Refits of the service: on a thread of their own, applied to the model that the job is from. */
import t from 'tap'
import { OnlineLearner } from '../../../opd/learner/learner.ts'
import { ManagedLearner } from '../../../opd/state/managed-learner.ts'
import { Refitter } from '../../../opd/state/refitter.ts'
import { chances, trained } from '../../support/learners.ts'
import { until } from '../../support/until.ts'

const late = 2e12
const errors: string[] = []
const log = {
  info() {},
  warn() {},
  error: (_fields: object, text: string) => void errors.push(text),
}

/** A model that has a job, and the moment at which its refit is applied. */
function model() {
  const [inner] = trained(1, 2000, 100)
  const learner = new ManagedLearner(inner!, 0)
  const applied = new Promise<void>((resolve) => {
    const apply = inner!.applyRefit.bind(inner!)
    inner!.applyRefit = (result) => {
      apply(result)
      resolve()
    }
  })
  return { learner, inner: inner!, applied }
}

t.test('a refit is made beside the event loop, and applied', async (t) => {
  const refitter = new Refitter(log, () => {})
  const { learner, inner, applied } = model()
  const before = chances(inner)
  refitter.poll([learner], late)
  t.same(chances(inner), before, 'not on this thread')
  await applied
  t.notSame(chances(inner), before)
  await new Promise(setImmediate)
  t.same(refitter.counts, { applied: 1, failed: 0 })
  refitter.poll([model().learner], late)
  t.same(refitter.counts, { applied: 1, failed: 0 }, 'and none before its share of a core is free')
  await refitter.close()
})

t.test('a model that was rolled back meanwhile ignores it', async (t) => {
  const refitter = new Refitter(log, () => {})
  const { learner } = model()
  const other = new OnlineLearner({})
  const before = chances(other)
  const finished = new Promise<void>((resolve) => {
    const worker = () => (refitter as unknown as { running: object | null }).running
    const look = () => (worker() === null ? resolve() : void setImmediate(look))
    refitter.poll([learner], late)
    setImmediate(look)
  })
  learner.replace(other, 1)
  await finished
  t.same(chances(other), before)
  t.same(refitter.counts, { applied: 0, failed: 0 })
  t.same(errors, [])
  await refitter.close()
})

t.test('a frozen model has no job', (t) => {
  const { learner } = model()
  learner.freeze(true)
  t.equal(learner.inner.refitJob(late), null)
  learner.freeze(false)
  t.not(learner.inner.refitJob(late), null)
  t.end()
})

t.test('a refit that takes too long is ended, and counts as failed', async (t) => {
  const refitter = new Refitter(log, () => {})
  t.equal(refitter.seconds, 0)
  refitter.poll([model().learner], late)
  t.ok(refitter.seconds > 0)
  const { running } = refitter as unknown as { running: { since: number } }
  running.since -= 601_000
  refitter.poll([], late)
  await until(() => refitter.seconds === 0)
  t.same(refitter.counts, { applied: 0, failed: 1 })
  t.match(errors.at(-1), 'a refit failed')
  await refitter.close()
})
