/**
 * `npm run bench:drill`: ten faults, one after the other, in two nodes under traffic with a real Prometheus; about a quarter
 * of an hour. What names each fault, and after how long: the alert, a panel of the boards, a sentence of the console.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { postgresAbsent } from '../../test/support/postgres.ts'
import { redisAbsent } from '../../test/support/redis.ts'
import { until } from '../../test/support/until.ts'
import { bench, type Run } from '../harness/bench.ts'
import { firstLine } from '../harness/machine.ts'
import type { Cell } from '../harness/report.ts'
import { type Fault, faults } from './faults.ts'
import { canMount, startWorld, type World } from './world.ts'

const options = {
  interval: { value: 15, least: 1, help: 'Seconds between two scrapes and two evaluations.' },
  fault: { value: '', help: 'Only the faults whose names contain this text.' },
}
type DrillRun = Run<typeof options>

/** Seconds within which each sign must appear. */
const limit = 120
const signs = ['alert', 'panel', 'console'] as const
type Sign = (typeof signs)[number]

const prometheusVersion = firstLine('prometheus', '--version')

/** What names the fault now; '' where nothing does. */
async function present(
  { prometheus, sentences }: World,
  { alert, panel, shows, sentence }: Fault,
): Promise<Record<Sign, string>> {
  const [alerts, samples, texts] = await Promise.all([
    prometheus.alerts(),
    prometheus.panel(panel),
    sentences(),
  ])
  return {
    alert: alerts.some(({ name }) => name === alert) ? alert : '',
    panel: samples.some(shows) ? panel : '',
    console: texts.flatMap((text) => sentence.exec(text) ?? [])[0] ?? '',
  }
}

/** By sign, what named the fault, and after how many seconds. */
async function namesOf(run: DrillRun, world: World, fault: Fault): Promise<Record<Sign, string>> {
  // What the faults before have left, or a busy machine has caused, passes first.
  const isHealthy = async () =>
    Object.values(await present(world, fault)).every((text) => text === '')
  await until(isHealthy, {
    what: `no sign of "${fault.name}" before it is injected`,
    limit: 300_000,
  })
  await fault.inject(world)
  const began = performance.now()
  const found: Record<Sign, string> = { alert: '', panel: '', console: '' }
  for (;;) {
    const now = await present(world, fault)
    const elapsed = (performance.now() - began) / 1000
    for (const sign of signs)
      if (now[sign] !== '' && found[sign] === '')
        found[sign] = `${now[sign]} ${Math.round(elapsed)} s`
    if (signs.every((sign) => found[sign] !== '') || elapsed > limit) break
    await wait(500)
  }
  await fault.end(world)
  for (const sign of signs)
    if (found[sign] === '')
      run.refuse(`${fault.name}: the ${sign} did not name it within ${limit} s`)
  return found
}

async function drill(run: DrillRun) {
  const { interval, fault: only } = run.options
  await using world = await startWorld(interval)
  // A rate over five minutes needs two samples, and the ratios of the alerts their recording rules.
  await wait(1000 * Math.max(60, 5 * interval))
  const durations = await world.prometheus.durations()
  const rows: Cell[][] = []
  for (const fault of faults.filter(({ name }) => name.includes(only))) {
    run.say(fault.name)
    const found = await namesOf(run, world, fault)
    const pages = durations.get(fault.alert)!
    rows.push([
      fault.name,
      found.alert,
      pages === 0 ? 'at once' : `${pages / 60} min`,
      found.panel,
      found.console,
    ])
    run.say(rows.at(-1)!.join(' | '))
  }
  return [
    {
      head: [
        'fault',
        'alert is true after',
        'it fires then after',
        'panel shows it after',
        'console says it after',
      ],
      rows,
    },
  ]
}

await bench({
  folder: import.meta.dirname,
  title: 'Faults, and what names them',
  about:
    'Two nodes (one of two processes) on PostgreSQL and Redis, with bids, wins and a Prometheus that has the alerts of the chart. Each fault is injected into the running nodes and ended before the next one. Prometheus scrapes and evaluates every 15 s, if not said otherwise above; what a panel shows is what its queries answer; what the console says is what `GET /api/svc/live/` answers to it. An alert that is true is pending; it fires, and notifies, after its `for`, which the drill does not wait for.',
  options,
  programs: () => [prometheusVersion?.replace(/ \(.*/, '') ?? null],
  sections: {
    faults: {
      title: 'Ten faults',
      absent:
        postgresAbsent ||
        redisAbsent ||
        (prometheusVersion === null && 'prometheus not found') ||
        (!canMount && 'a disk can only be mounted by root'),
      run: drill,
    },
  },
})
