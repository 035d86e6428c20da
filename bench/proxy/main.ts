/**
 * `npm run bench:proxy`: bidweir and its alternatives side by side, under 10 minutes.
 * `-- --quick` takes about one, `--only NAME,NAME` and `--stage KEY,KEY` narrow it: these write
 * no file, unless with `--write`.
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createHarness, type Harness, type Sample } from './harness.ts'
import { type Case, plan, type Stage } from './plan.ts'
import { bars } from './plot.ts'
import { type Measured, median, report } from './report.ts'
import { subjects } from './subjects.ts'

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    stage: { type: 'string' },
    write: { type: 'boolean', default: false },
  },
})
const say = (text: string) => process.stderr.write(`${text}\n`)
const warm = values.quick ? 300 : 700

async function runStage(harness: Harness, stage: Stage): Promise<Measured> {
  say(`${stage.title}`)
  const takesPart = harness.running.filter(
    ({ subject }) => stage.subjects === null || stage.subjects.includes(subject.name),
  )
  const samples = new Map<string, Sample[]>()
  const id = (name: string, { label }: Case) => `${name} ${label}`
  for (let round = 0; round < stage.rounds; round++)
    for (const each of stage.cases)
      for (let at = 0; at < takesPart.length; at++) {
        // Each round begins with another one, so that nobody always follows the same neighbour.
        const running = takesPart[(at + round) % takesPart.length]!
        const { paths, connections, rate } = each
        const sample = await harness.measure(running, {
          ...{ paths, connections, rate, warm, measure: stage.measure },
        })
        const key = id(running.subject.name, each)
        samples.set(key, [...(samples.get(key) ?? []), sample])
        say(
          `  ${round + 1} ${each.label} ${running.subject.name}: ${sample.perRequest.toFixed(1)} us, ${sample.rate.toFixed(0)}/s, p99 ${sample.p99} ms${sample.bad > 0 ? `, ${sample.bad} failed` : ''}`,
        )
      }
  const rows = takesPart.flatMap(({ subject: { name } }) =>
    stage.cases.map((each) => ({
      ...{ subject: name, label: each.label, sample: median(samples.get(id(name, each))!) },
    })),
  )
  return { stage, rows }
}

const firstLine = (program: string, ...args: string[]) => {
  const { error, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' })
  return error === undefined ? `${stdout}${stderr}`.split('\n')[0]!.trim() : null
}

function facts(seconds: number, load: string, missing: Harness['missing']) {
  const versions = [firstLine('nginx', '-v'), firstLine('haproxy', '-v')?.replace(/ \d{4}.*$/, '')]
  const commit = firstLine(
    'git',
    '-C',
    fileURLToPath(new URL('.', import.meta.url)),
    'rev-parse',
    '--short',
    'HEAD',
  )
  return {
    date: new Date().toISOString().slice(0, 16).replace('T', ' '),
    cpu: cpus()[0]?.model ?? 'unknown CPU',
    cores: cpus().length,
    node: process.version,
    commit: commit ?? 'unknown',
    versions: versions.filter((text) => typeof text === 'string'),
    ...{ load, seconds, missing, quick: values.quick },
  }
}

const started = performance.now()
const load = loadavg()[0]!.toFixed(2)
const harness = await createHarness(values.only?.split(',') ?? [], say)
const measured: Measured[] = []
try {
  // Compilers first: what runs on Node gets its hot paths optimised before anyone is measured.
  for (const running of harness.running)
    await harness.measure(running, {
      paths: ['/bid/bench'],
      connections: 64,
      rate: 0,
      warm: 0,
      measure: values.quick ? 1500 : 4000,
    })
  for (const stage of plan(values.quick))
    if (values.stage === undefined || values.stage.split(',').includes(stage.key))
      measured.push(await runStage(harness, stage))
} finally {
  await harness.close()
}
const seconds = Math.round((performance.now() - started) / 1000)
const jobs = new Map(subjects.map(({ name, job }) => [name, job]))
const text = report(measured, facts(seconds, load, harness.missing), jobs)
process.stdout.write(text)
if (values.write || (!values.quick && values.only === undefined && values.stage === undefined)) {
  writeFileSync(new URL('./RESULTS.md', import.meta.url), text)
  const rows = measured[0]!.rows.map(({ subject, sample }) => ({
    ...{ label: subject, value: sample.perRequest, accent: subject === 'bidweir' },
  }))
  const svg = bars('CPU microseconds per request, the mix, 64 connections', rows)
  writeFileSync(new URL('./RESULTS.svg', import.meta.url), svg)
}
