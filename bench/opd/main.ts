/**
 * The learner against markets whose true win curves are known.
 *
 *   node bench/opd/main.ts [--quick] [--goal 3] [--market synthetic] [--bids 150000] [--seeds 2] [--first 1]
 */
import { parseArgs } from 'node:util'
import { goals } from './goals.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    goal: { type: 'string' },
    market: { type: 'string' },
    bids: { type: 'string' },
    seeds: { type: 'string' },
    first: { type: 'string', default: '1' },
  },
})

const fixed = (value: number) => value.toFixed(4)
for (const goal of goals) {
  if (values.goal !== undefined && Number(values.goal) !== goal.of) continue
  if (values.market !== undefined && values.market !== goal.market) continue
  const bids = Number(values.bids ?? (values.quick ? goal.bids / 5 : goal.bids))
  const seeds = Number(values.seeds ?? (values.quick ? 1 : goal.seeds))
  const found: number[] = []
  for (let seed = Number(values.first); found.length < seeds; seed++) {
    const from = performance.now()
    const { value, notes } = goal.measure(seed, bids)
    found.push(value)
    const more = Object.entries(notes).map(([name, note]) => `${name} ${fixed(note)}`)
    const seconds = ((performance.now() - from) / 1000).toFixed(1)
    process.stdout.write(`  seed ${seed}: ${fixed(value)}  ${more.join('  ')}  (${seconds} s)\n`)
  }
  const mean = found.reduce((sum, value) => sum + value, 0) / found.length
  const spread = Math.sqrt(
    found.reduce((sum, value) => sum + (value - mean) ** 2, 0) /
      Math.max(1, found.length - 1) /
      found.length,
  )
  const met = mean >= (goal.atLeast ?? -1e9) && mean <= (goal.atMost ?? 1e9)
  process.stdout.write(
    `goal ${goal.of} ${goal.market}: ${goal.name}: ${fixed(mean)} ± ${fixed(spread)}, ${met ? 'met' : 'not met'} (${goal.atLeast ?? goal.atMost})\n`,
  )
}
