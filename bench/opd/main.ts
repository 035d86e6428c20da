/**
 * `npm run bench:opd`: the learner against markets whose true win curves are known, an hour on two threads, and some minutes with
 * `--quick`. `--only ablation`, `--goal 3`, `--market synthetic`, `--bids 150000` and `--seeds 2` narrow it.
 */
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { bench, type Run } from '../harness/bench.ts'
import type { Values } from '../harness/options.ts'
import type { Block } from '../harness/report.ts'
import { controls } from './controlled.ts'
import { drawnTable, partsTable } from './drawn.ts'
import { type Goal, goals } from './goals.ts'
import { parts } from './parts.ts'
import { draw, goalTable } from './results.ts'
import { speed } from './speed.ts'
import type { Done, DrawnDone, DrawnTask, Task } from './task.ts'

const options = {
  without: { value: '', help: 'parts that are switched off, with commas; all of parts.ts' },
  threads: { value: 2, help: 'threads of markets and parts', least: 1 },
  goal: { value: '', help: 'numbers of goals, such as 3,3b; none: what has no number' },
  market: { value: '', help: 'markets, with commas between them' },
  bids: { value: 0, help: 'instead of those of each goal' },
  seeds: { value: 0, help: 'instead of those of each goal' },
  first: { value: 0, help: 'the first seed; 0: new ones' },
  drawn: { value: 50, help: 'markets that are drawn at random', least: 1 },
  long: { value: 8, help: 'markets that are drawn at random, of 150,000 bids' },
  rare: { value: 16, help: 'markets that are drawn at random, with win rates of .1 to 1 %' },
  controlled: { value: 16, help: 'of those, markets that also run with a true loss or curve' },
  data: { value: '', help: 'a folder of recorded prices: goals of its own, read by goals.ts' },
}

/** Does tasks in threads, the longest first. `report` is called after each. */
async function inThreads<T extends { bids: number }, D extends { seed: number }>(
  tasks: readonly T[],
  most: number,
  report: (done: D) => void,
): Promise<D[]> {
  const waiting = [...tasks].sort((one, other) => other.bids - one.bids)
  const done: D[] = []
  const threads = Math.min(most, availableParallelism(), waiting.length)
  await Promise.all(
    Array.from({ length: threads }, async () => {
      const worker = new Worker(new URL('task.ts', import.meta.url), {
        workerData: 'opd task',
        argv: process.argv.slice(2),
      })
      for (let task = waiting.shift(); task !== undefined; task = waiting.shift()) {
        worker.postMessage(task)
        const [found] = (await once(worker, 'message')) as [D]
        done.push(found)
        report(found)
      }
      await worker.terminate()
    }),
  )
  return done.sort((one, other) => one.seed - other.seed)
}

const runAll = (tasks: readonly Task[], most: number, say: (line: string) => void) =>
  inThreads<Task, Done>(tasks, most, ({ goal, seed, measured, seconds }) => {
    const { name, number, market } = goals[goal]!
    const what = `${number} ${market}, ${name}, seed ${seed}`
    const all = Object.entries({ '': measured.value, ...measured.notes })
    const figures = all.map(([key, value]) => `${key} ${value.toFixed(4)}`)
    say(`  ${what}:${figures.join('  ')}  (${seconds.toFixed(1)} s)`)
  })

type Given = Values<typeof options>

/** Seeds of a run that names none: nothing was chosen on them. */
const freshSeed = 1 + (Math.floor(Date.now() / 1000) % 1_000_000_000)
/** Bids of the longer markets. */
const longBids = 150_000
/** Bids of markets where wins are rare. */
const rareBids = 60_000
const firstSeed = ({ first }: Given) => first || freshSeed

const aboutDrawn: Record<(typeof controls)[number], string> = {
  learner: 'The learner.',
  'true loss':
    'The same curve, with multipliers that see the true loss of each price: what the control loses.',
  'true curve':
    'The same control, with the true curve of each bid: what the curve loses. No learner can have it.',
}

/** Markets that are drawn at random: the learner, and on some of them each half of it with the truth for the other. */
async function drawn({ quick, options: given, say }: Run<typeof options>): Promise<Block[]> {
  const bids = given.bids || (quick ? 5000 : 30_000)
  const first = firstSeed(given)
  const count = quick ? 4 : given.drawn
  const compared = Math.min(count, quick ? 1 : given.controlled)
  const longer = quick ? 0 : given.long
  const rare = quick ? 0 : given.rare
  const tasksOf = (control: DrawnTask['control'], many: number, bids: number) =>
    Array.from({ length: many }, (_each, n) => ({ control, bids, seed: first + n }))
  const tasks = [
    ...controls.flatMap((control) =>
      tasksOf(control, control === 'learner' ? count : compared, bids),
    ),
    ...tasksOf('learner', longer, longBids),
    ...tasksOf('learner', rare, rareBids).map((task) => ({ ...task, rare: true })),
  ]
  const done = await inThreads<DrawnTask, DrawnDone>(
    tasks,
    given.threads,
    ({ control, seed, bids, rare, found }) =>
      say(
        `  ${control}, seed ${seed}, ${bids} bids${rare ? ', rare' : ''}: ${JSON.stringify(found)}`,
      ),
  )
  const found = (control: DrawnTask['control'], before = first + count, bidCount = bids) =>
    done
      .filter((task) => task.control === control && task.seed < before && task.bids === bidCount)
      .filter(({ rare }) => rare !== true)
      .map((task) => task.found)
  const last = first + compared
  const markets = `${compared} markets from seed ${first}.`
  return [
    `Markets from seed ${first}, ${bids} bids each. Margin: share of what an oracle with the same floors earns in the last half. Standard errors by the bootstrap over markets.`,
    ...drawnTable(`${aboutDrawn.learner} ${count} markets from seed ${first}.`, found('learner')),
    ...(longer === 0
      ? []
      : drawnTable(
          `The learner. ${longer} markets from seed ${first}, ${longBids} bids each.`,
          found('learner', first + longer, longBids),
        )),
    ...(rare === 0
      ? []
      : drawnTable(
          `Wins are rare: win rates of .1 to 1 %. ${rare} markets from seed ${first}, ${rareBids} bids each.`,
          done.flatMap((task) => (task.rare === true ? [task.found] : [])),
        )),
    ...(compared === 0
      ? []
      : controls.flatMap((control) =>
          drawnTable(`${aboutDrawn[control]} ${markets}`, found(control, last)),
        )),
  ]
}

async function markets({ quick, options: given, say }: Run<typeof options>): Promise<Block[]> {
  const chosen = [...goals.keys()].filter((index) => isChosen(given, goals[index]!))
  const tasks = chosen.flatMap((goal) => {
    const bids = given.bids || goals[goal]!.bids / (quick ? 10 : 1)
    return seedsOf(given, quick ? 1 : goals[goal]!.seeds).map((seed) => ({ goal, seed, bids }))
  })
  const done = await runAll(tasks, given.threads, say)
  const rows = chosen.map((index) => ({
    goal: goals[index]!,
    done: done.filter(({ goal }) => goal === index),
  }))
  return [
    'Means over seeds; margins on the true curves, shares of what an oracle earns that knows them (goal 3: under the same constraints; goal 4: with the same margin share).',
    goalTable(rows),
    ...draw(goals, done),
  ]
}

/** Markets drawn at random, with every part and without each of them. */
async function ablation({ quick, options: given, say }: Run<typeof options>): Promise<Block[]> {
  const bids = given.bids || (quick ? 5000 : 30_000)
  const [first, count] = [firstSeed(given), quick ? 2 : given.drawn]
  const off = given.without === '' ? Object.keys(parts) : given.without.split(',')
  const tasks = [undefined, ...off].flatMap((without) =>
    Array.from({ length: count }, (_each, n) => {
      return { control: 'learner', bids, seed: first + n, without } as const
    }),
  )
  const done = await inThreads<DrawnTask, DrawnDone>(
    tasks,
    given.threads,
    ({ without, seed, found }) =>
      say(`  without ${without ?? 'nothing'}, seed ${seed}: ${JSON.stringify(found)}`),
  )
  const found = (part: string | undefined) =>
    done.flatMap((task) => (task.without === part ? [task.found] : []))
  return [
    `${count} markets from seed ${first}, ${bids} bids each. Margin at kept floors, share of what the oracle earns; its mean change where one part is switched off, with the standard error over markets.`,
    partsTable(found(undefined), Object.fromEntries(off.map((part) => [part, found(part)]))),
  ]
}

const isChosen = (given: Given, { number, market }: Goal) =>
  (given.goal === '' || given.goal.split(',').includes(number === '' ? 'none' : number)) &&
  (given.market === '' || given.market.split(',').includes(market))

const seedsOf = (given: Given, seeds: number) =>
  Array.from({ length: given.seeds || seeds }, (_each, n) => firstSeed(given) + n)

await bench({
  folder: import.meta.dirname,
  title: 'The learner on markets whose curves are known',
  about: 'Everything in it is drawn from seeds; only the speed depends on the machine.',
  options,
  sections: {
    // Alone on the machine, before the threads.
    speed: { title: 'Speed', run: speed },
    drawn: {
      title: 'Markets drawn at random',
      run: drawn,
    },
    markets: { title: 'Goals', run: markets },
    ablation: { title: 'Parts switched off', run: ablation },
  },
})
