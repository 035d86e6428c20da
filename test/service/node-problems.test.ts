/** What the console says of a node whose database, disk, refit or processes are in trouble. */
import t from 'tap'
import { createNodeProblems } from '../../service/node-problems.ts'

type Deps = Parameters<typeof createNodeProblems>[0]

const healthy: Deps = {
  reload: () => ({ successful: true, restart: [] }),
  redis: { connected: true },
  lost: () => [],
  ratesStale: () => false,
  clockAhead: () => 0,
  differences: () => [],
  commitSeconds: () => 0.01,
  disk: () => ({ free: 50, size: 100 }),
  refitSeconds: () => 5,
  workers: () => ({ ended: 0, endedAt: 0 }),
  draining: () => false,
}
const problemsOf = (over: Partial<Deps>) => createNodeProblems({ ...healthy, ...over })()
const minutesAgo = (minutes: number) => performance.now() - minutes * 60_000

t.test('a healthy node has none, nor has one of which nothing is known', async (t) => {
  t.same(problemsOf({}), [])
  t.same(problemsOf({ disk: () => null, workers: () => null, redis: null }), [])
})

const cases: [over: Partial<Deps>, level: string, text: RegExp][] = [
  [{ commitSeconds: () => 1.24 }, 'warn', /the database is slow: a commit of wins takes 1\.2 s/],
  [{ disk: () => ({ free: 1, size: 100 }) }, 'bad', /stateDir is full: 1\.0 % is free/],
  [{ disk: () => ({ free: 9, size: 100 }) }, 'warn', /stateDir fills: 9\.0 % is free/],
  [{ refitSeconds: () => 180 }, 'warn', /a refit of the model has not ended for 3 min/],
  [
    { workers: () => ({ ended: 2, endedAt: minutesAgo(4) }) },
    'warn',
    /ended or hung 4 min ago and was replaced; 2 since the start/,
  ],
]
for (const [over, level, text] of cases)
  t.test(String(text), async (t) => {
    const problems = problemsOf(over)
    t.equal(problems.length, 1)
    t.equal(problems[0]?.level, level)
    t.match(problems[0]?.text, text)
  })

t.test('a process that was replaced an hour ago is no problem now', async (t) => {
  t.same(problemsOf({ workers: () => ({ ended: 2, endedAt: minutesAgo(60) }) }), [])
})
