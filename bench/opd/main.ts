/**
 * `npm run bench:opd`: the learner against markets whose true win curves are known, five minutes on two threads. `--goal 3`,
 * `--market synthetic`, `--bids 150000` and `--seeds 2` narrow it.
 */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { bench, type Run } from '../harness/bench.ts'
import type { Block } from '../harness/report.ts'
import { goals } from './goals.ts'
import { draw } from './plots.ts'
import { goalTable, speedTable } from './results.ts'
import { speed } from './speed.ts'
import type { Done, Task } from './task.ts'

const options = {
  goal: { value: '', help: 'the number of a goal; 0 is what has none' },
  market: { value: '', help: 'one market' },
  bids: { value: 0, help: 'instead of those of each goal' },
  seeds: { value: 0, help: 'instead of those of each goal' },
  first: { value: 1, help: 'the first seed' },
}

/** The longest first, on two threads. */
async function runAll(tasks: readonly Task[], say: (line: string) => void): Promise<Done[]> {
  const waiting = [...tasks].sort((one, other) => other.bids - one.bids)
  const done: Done[] = []
  const threads = Math.min(2, availableParallelism(), waiting.length)
  await Promise.all(
    Array.from({ length: threads }, async () => {
      const worker = new Worker(new URL('task.ts', import.meta.url), { workerData: 'opd task' })
      for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
        worker.postMessage(task)
        const [found] = (await once(worker, 'message')) as [Done]
        done.push(found)
        const { name, of, market } = goals[found.goal]!
        const notes = Object.entries(found.measured.notes).map(
          ([key, at]) => `${key} ${at.toFixed(4)}`,
        )
        say(
          `  ${of} ${market}, ${name}, seed ${found.seed}: ${found.measured.value.toFixed(4)}  ${notes.join('  ')}  (${found.seconds.toFixed(1)} s)`,
        )
      }
      await worker.terminate()
    }),
  )
  return done.sort((one, other) => one.seed - other.seed)
}

async function markets({ quick, options: given, say }: Run<typeof options>): Promise<Block[]> {
  const chosen = [...goals.keys()].filter(
    (at) =>
      (given.goal === '' || Number(given.goal) === goals[at]!.of) &&
      (given.market === '' || given.market === goals[at]!.market),
  )
  const tasks = chosen.flatMap((goal) => {
    const bids = given.bids || goals[goal]!.bids / (quick ? 5 : 1)
    const seeds = given.seeds || (quick ? 1 : goals[goal]!.seeds)
    return Array.from({ length: seeds }, (_each, n) => ({ goal, seed: given.first + n, bids }))
  })
  const done = await runAll(tasks, say)
  const rows = chosen.map((at) => ({
    goal: goals[at]!,
    done: done.filter(({ goal }) => goal === at),
  }))
  return [
    `Seeds from ${given.first}, on two threads. Means over seeds; margins on the true curves, shares of what an oracle earns that knows them (goal 3: under the same constraints; goal 4: with the same margin share).`,
    goalTable(rows),
    ...draw(goals, done),
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'The learner on markets whose curves are known',
  about: 'Everything in it is drawn from seeds; only the speed depends on the machine.',
  options,
  sections: {
    // Alone on the machine, before the threads.
    speed: { title: 'Speed', run: () => [speedTable(speed())] },
    markets: { title: 'Markets', run: markets },
  },
})
