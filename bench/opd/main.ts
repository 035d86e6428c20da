/**
 * The learner against markets whose true win curves are known.
 *
 *   node bench/opd/main.ts [--quick] [--goal 3] [--market synthetic] [--bids 150000] [--seeds 2] [--first 1]
 *     [--data FOLDER] [--write]
 *
 * `--write` runs all of it and writes RESULTS.md and the plots.
 */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import { goals } from './goals.ts'
import { draw } from './plots.ts'
import { head, line, resultOf, speedLines } from './results.ts'
import { type Speed, speed } from './speed.ts'
import type { Done, Task } from './task.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    goal: { type: 'string' },
    market: { type: 'string' },
    bids: { type: 'string' },
    seeds: { type: 'string' },
    first: { type: 'string', default: '1' },
    data: { type: 'string' },
  },
})

const chosen = goals.flatMap((goal, at) => {
  const wanted =
    (values.goal === undefined || Number(values.goal) === goal.of) &&
    (values.market === undefined || values.market === goal.market)
  return wanted ? [at] : []
})
const bidsOf = (at: number) => Number(values.bids ?? goals[at]!.bids / (values.quick ? 5 : 1))
const tasks: Task[] = chosen.flatMap((goal) => {
  const seeds = Number(values.seeds ?? (values.quick ? 1 : goals[goal]!.seeds))
  return Array.from({ length: seeds }, (_each, n) => ({
    goal,
    seed: Number(values.first) + n,
    bids: bidsOf(goal),
  }))
})

/** The longest first, on two threads. */
async function runAll(): Promise<Done[]> {
  const waiting = [...tasks].sort((one, other) => other.bids - one.bids)
  const done: Done[] = []
  const threads = Math.min(2, availableParallelism(), waiting.length)
  await Promise.all(
    Array.from({ length: threads }, async () => {
      const worker = new Worker(new URL('task.ts', import.meta.url), {
        workerData: 'opd task',
        argv: process.argv.slice(2),
      })
      for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
        const answer = new Promise<Done>((resolve, reject) => {
          worker.once('message', resolve)
          worker.once('error', reject)
        })
        worker.postMessage(task)
        const found = await answer
        done.push(found)
        const { name, of, market } = goals[found.goal]!
        const notes = Object.entries(found.measured.notes).map(
          ([key, at]) => `${key} ${at.toFixed(4)}`,
        )
        process.stderr.write(
          `${of} ${market}, ${name}, seed ${found.seed}: ${found.measured.value.toFixed(4)}  ${notes.join('  ')}  (${found.seconds.toFixed(1)} s)\n`,
        )
      }
      await worker.terminate()
    }),
  )
  return done.sort((one, other) => one.seed - other.seed)
}

const from = performance.now()
// What runs is what was there at the start.
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
const measuresSpeed =
  (values.goal === undefined && values.market === undefined) || values.goal === '10'
// Alone on the machine, before the threads.
const speeds: Speed | null = measuresSpeed ? speed() : null
const done = await runAll()
const lines = chosen.map((at) =>
  line(
    resultOf(
      goals[at]!,
      done.filter(({ goal }) => goal === at),
    ),
  ),
)
const table = [head, ...lines].join('\n')
const ten = speeds === null ? '' : `\n\n${speedLines(speeds)}`
process.stdout.write(`${table}${ten}\n`)

if (values.write) {
  const here = new URL('./', import.meta.url)
  const minutes = ((performance.now() - from) / 60_000).toFixed(1)
  writeFileSync(
    new URL('RESULTS.md', here),
    `# The learner on markets whose curves are known

${new Date().toISOString().slice(0, 10)}, ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.version}, commit ${commit}; \`npm run bench:opd\`, ${minutes} minutes
on two threads. Seeds from ${values.first}. Means over seeds; margins on the true curves, shares of what an oracle earns that knows
them (goal 3: under the same constraints; goal 4: with the same margin share).

${table}${ten}

![regret, synthetic](RESULTS-regret-synthetic.svg) ![regret, replay](RESULTS-regret-replay.svg)
![wins kept](RESULTS-kept.svg) ![margin against wins](RESULTS-frontier.svg)
`,
  )
  draw(goals, done, here)
}
