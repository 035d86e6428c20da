/** Seats and publishers of their own: a pooled floor hides no victims, and the table is bounded. */
import t from 'tap'
import { Segments } from '../../../opd/learner/control/segments.ts'
import { source } from '../../support/random.ts'

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
          if (segment !== null) segments.adjust(segment, told, 0.97, 0.97)
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
    if (n % 2 === 0) segments.exposed(7, 0.5)
  }
  t.ok(segments.size <= 4096)
  t.same(
    segments.saved().map(({ key }) => key),
    [7],
  )
  t.end()
})
