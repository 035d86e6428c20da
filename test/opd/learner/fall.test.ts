/** The guard `drop`: what is a fall of the win rate, and what is not, with several suppliers. */
import t from 'tap'
import { createLearner, type Policy } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const start = 1_760_000_000_000
const policy: Policy = { minWinRate: 0.97, holdout: 0.02, explore: 0 }
/** Notices take 5 s. */
const delay = 5000

interface Traffic {
  supplier: string
  /** Share of all bids, and the win rate at any price. */
  share: (n: number) => number
  rate: (n: number) => number
}

/** A bid a second. Returns the bids at which the guard `drop` began to act, by supplier. */
function drops(bids: number, traffic: readonly Traffic[]): Map<string, number> {
  const learner = createLearner({ attributionWindow: 600_000 })
  const random = source(8)
  const due: [dueAt: number, features: Uint8Array, cleared: number][] = []
  const found = new Map<string, number>()
  for (let n = 0; n < bids; n++) {
    const now = start + 1000 * n
    let left = random() * traffic.reduce((sum, { share }) => sum + share(n), 0)
    const index = traffic.findIndex(({ share }) => {
      left -= share(n)
      return left < 0
    })
    const { supplier, rate } = traffic[index]!
    const facts = { supplier, mode: 'revenue' as const, inBa: 1 + random(), floor: 0.1 }
    const decision = learner.decide(facts, policy, `a${n}`, now, random)
    const features = learner.expose(decision, decision.outBa, now)
    if (decision.guard === 'drop' && !found.has(supplier)) found.set(supplier, n)
    if (random() < rate(n)) due.push([now + delay, features, decision.outBa])
    while (due.length > 0 && due[0]![0] <= now) {
      const [, bytes, cleared] = due.shift()!
      learner.win(bytes, cleared, now)
    }
    learner.advance(now)
  }
  return found
}
const always = (value: number) => () => value

for (const [what, share] of [
  ['a new supplier', (n: number) => (n < 10_000 ? 0 : 2)],
  ['more traffic of a supplier', (n: number) => (n < 14_000 ? 0.5 : 4)],
] as const)
  t.test(`${what} that seldom wins is no fall of the others`, (t) => {
    const found = drops(24_000, [
      { supplier: 'often', share: always(1), rate: always(0.5) },
      { supplier: 'seldom', share, rate: always(0.09) },
    ])
    t.same([...found], [])
    t.end()
  })

t.test('a fall of all by a fifth is found though each supplier has few wins', (t) => {
  const fallAt = 12_000
  const traffic = Array.from({ length: 40 }, (_each, n) => ({
    supplier: `s${n}`,
    share: always(1),
    rate: (n: number) => (n < fallAt ? 0.5 : 0.38),
  }))
  const found = drops(fallAt + 3000, traffic)
  t.ok(found.size > 35, `${found.size} of 40 suppliers`)
  t.ok(Math.min(...found.values()) > fallAt, 'not before')
  t.end()
})

t.test('a fall of one supplier is found, and the others go on', (t) => {
  const fallAt = 12_000
  const found = drops(fallAt + 8000, [
    { supplier: 'falls', share: always(1), rate: (n) => (n < fallAt ? 0.5 : 0.35) },
    { supplier: 'stays', share: always(3), rate: always(0.5) },
  ])
  t.same([...found.keys()], ['falls'])
  t.ok(found.get('falls')! > fallAt)
  t.end()
})
