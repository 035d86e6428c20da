/** A benchmark is a table of sections and a table of options. `bench` runs the chosen sections, and prints or writes the report. */
import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { watchFacts } from './machine.ts'
import { type Options, optionsOf, type Values } from './options.ts'
import { type Block, json, type Measured, markdown } from './report.ts'
import { spread } from './statistics.ts'

export interface Run<O extends Options = Record<never, never>> {
  options: Values<O>
  quick: boolean
  /** A line of progress. */
  say(line: string): void
  /** Adds to the report that something was not measured. */
  missing(what: string): void
  /** The figures are printed, but RESULTS.md is not written, and the run fails. */
  refuse(why: string): void
  /** A sentence on how much the figures, one a round, vary; if it is by more than 15 %, it says that they are uncertain. */
  steady(what: string, figures: readonly number[]): string
}

const mostSpread = 0.15

interface Section<O extends Options, S> {
  title: string
  /** Why it cannot be measured on this machine. */
  absent?: string | false
  run(run: Run<O>, state: S): Block[] | Promise<Block[]>
}

export interface Bench<O extends Options, S> {
  /** The folder of the benchmark, which has the name of the script. */
  folder: string
  title: string
  about: string
  options?: O
  /** Versions of other programs that take part. */
  programs?: () => (string | null)[]
  /** Opens the state that the sections share. */
  open?: (run: Run<O>) => Promise<S>
  sections: Readonly<Record<string, Section<O, S>>>
}

export async function bench<
  O extends Options = Record<never, never>,
  S extends AsyncDisposable | undefined = undefined,
>(plan: Bench<O, S>): Promise<void> {
  const script = basename(plan.folder)
  const keys = Object.keys(plan.sections)
  const {
    quick,
    write,
    only,
    json: asJson,
    ...options
  } = optionsOf(script, {
    quick: { value: false, help: 'short windows and few rounds: to try it, not to measure' },
    only: {
      value: keys.join(),
      help: 'Sections, with commas between them.',
      valid: (text: string) => text.split(',').every((key) => keys.includes(key)),
    },
    json: { value: false, help: 'print JSON instead of Markdown' },
    write: { value: false, help: 'write RESULTS.md too, or RESULTS-SECTION.md of one section' },
    ...plan.options,
  } as const satisfies Options)
  const [missing, refused]: [string[], string[]] = [[], []]
  const run: Run<O> = {
    options: options as unknown as Values<O>,
    quick,
    say: (line) => process.stderr.write(`${line}\n`),
    missing: (what) => missing.push(what),
    refuse: (why) => refused.push(why),
    steady(what, figures) {
      const varied = spread(figures)
      const text = `${what} varied by ${Math.round(varied * 100)} % over the rounds`
      return varied > mostSpread
        ? `${text}: the machine was busy, and the ratios are uncertain.`
        : `${text}.`
    },
  }
  const chosen = only.split(',')
  const facts = watchFacts()
  const sections: Measured[] = []
  {
    await using state = (await plan.open?.(run)) as S
    for (const key of chosen) {
      const { title, absent = false, run: measure } = plan.sections[key]!
      run.say(title)
      if (absent === false) sections.push({ key, title, blocks: await measure(run, state) })
      else missing.push(`${title}: ${absent}`)
    }
  }
  const programs = (plan.programs?.() ?? []).filter((program) => program !== null)
  const given = process.argv.slice(2).filter((word) => word !== '--write')
  const command = `npm run bench:${script}${given.length > 0 ? ` -- ${given.join(' ')}` : ''}`
  const report = {
    ...{ title: plan.title, facts: `\`${command}\`: ${facts(programs)}.`, about: plan.about },
    ...{ sections, missing, refused },
  }
  process.stdout.write(asJson ? json(report) : markdown(report))
  for (const why of refused) run.say(`refused: ${why}`)
  if (refused.length > 0) process.exitCode = 1
  else if (write) {
    const alone = chosen.length === 1 && keys.length > 1
    const file = alone ? `RESULTS-${chosen[0]}.md` : 'RESULTS.md'
    writeFileSync(join(plan.folder, file), markdown(report))
    for (const block of sections.flatMap(({ blocks }) => blocks))
      if (typeof block === 'object' && 'svg' in block)
        writeFileSync(join(plan.folder, block.file), block.svg)
  }
}
