/**
 * A benchmark is a table of sections, with a table of options; this runs them, and prints or writes what they say.
 */

import { writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { watchFacts } from './machine.ts'
import { type Block, json, type Measured, markdown } from './report.ts'
import { spread } from './statistics.ts'

interface Option {
  /** The default; its type is the option's. Numbers are whole, booleans are flags. */
  value: string | number | boolean
  help: string
  least?: number
  oneOf?: readonly string[]
  valid?: (text: string) => boolean
}
export type Options = Readonly<Record<string, Option>>
type Widened<T> = T extends number ? number : T extends boolean ? boolean : string
export type Values<O extends Options> = { [K in keyof O]: Widened<O[K]['value']> }

function checked(name: string, option: Option, given: string): string | number {
  const { value, least = 0, oneOf, valid } = option
  if (typeof value === 'number') {
    if (!/^\d+$/.test(given) || Number(given) < least)
      throw new Error(`--${name}: a whole number from ${least}, not ${given}`)
    return Number(given)
  }
  if (oneOf !== undefined && !oneOf.includes(given))
    throw new Error(`--${name}: ${oneOf.join(', ')}, not ${given}`)
  if (valid?.(given) === false) throw new Error(`--${name}: ${option.help}, not ${given}`)
  return given
}

/** Throws an `Error` that names the wrong option and what is accepted. */
export function parse<O extends Options>(options: O, argv: readonly string[]): Values<O> {
  const flag = ({ value }: Option) => typeof value === 'boolean'
  const { values } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(options).map(([name, option]) => [
        name,
        { type: flag(option) ? ('boolean' as const) : ('string' as const) },
      ]),
    ),
  })
  return Object.fromEntries(
    Object.entries(options).map(([name, option]) => {
      const given = values[name]
      return [
        name,
        typeof given === 'string' ? checked(name, option, given) : (given ?? option.value),
      ]
    }),
  ) as Values<O>
}

export function usage(script: string, options: Options): string {
  const lines = Object.entries(options).map(([name, { value, help, oneOf }]) => {
    const text = oneOf === undefined ? help : `${help}: ${oneOf.join(', ')}`
    const preset = typeof value === 'boolean' || value === '' ? '' : ` (${value})`
    return `  ${`--${name}`.padEnd(14)}${text}${preset}`
  })
  return `usage: npm run bench:${script} -- [options]\n${lines.join('\n')}\n`
}

/** The options of this process; a wrong one ends it with 64, `--help` with 0. */
export function optionsOf<O extends Options>(script: string, options: O): Values<O> {
  const argv = process.argv.slice(2)
  if (argv.includes('--help')) {
    process.stdout.write(usage(script, options))
    process.exit(0)
  }
  try {
    return parse(options, argv)
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage(script, options)}`)
    process.exit(64)
  }
}

export interface Run<O extends Options = Record<never, never>> {
  options: Values<O>
  quick: boolean
  /** A line of progress. */
  say(line: string): void
  missing(what: string): void
  /** The figures are printed, but RESULTS.md is not written and the run fails. */
  refuse(why: string): void
  /** Refuses the run if the figures, one a round, vary by more than 15 %; returns what to say of them. */
  steady(what: string, figures: readonly number[]): string
}

const mostSpread = 0.15

interface Section<O extends Options, S> {
  title: string
  run(run: Run<O>, state: S): Block[] | Promise<Block[]>
}

export interface Bench<O extends Options, S> {
  /** Of the benchmark; its name is the script's. */
  folder: string
  title: string
  about: string
  options?: O
  /** The file of these sections where it is not RESULTS.md: sections that take an hour each are run one by one. */
  file?: (sections: readonly string[]) => string
  /** Versions of other programs that take part. */
  programs?: () => (string | null)[]
  /** What the sections share. */
  open?: (run: Run<O>, sections: readonly string[]) => Promise<S>
  close?: (state: S) => Promise<void>
  sections: Readonly<Record<string, Section<O, S>>>
}

export async function bench<O extends Options = Record<never, never>, S = undefined>(
  of: Bench<O, S>,
): Promise<void> {
  const script = basename(of.folder)
  const keys = Object.keys(of.sections)
  const { quick, write, only, ...options } = optionsOf(script, {
    quick: { value: false, help: 'short windows and few rounds: to try it, not to judge by' },
    only: {
      value: '',
      help: `sections, of ${keys.join(',')}`,
      valid: (text: string) => text.split(',').every((key) => keys.includes(key)),
    },
    json: { value: false, help: 'print JSON instead of Markdown' },
    write: { value: false, help: 'write RESULTS.md, too' },
    ...of.options,
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
      if (varied > mostSpread) run.refuse(`${text}: the machine is too busy to judge by`)
      return `${text}.`
    },
  }
  const chosen = only === '' ? keys : only.split(',')
  const facts = watchFacts()
  const state = (await of.open?.(run, chosen)) as S
  const sections: Measured[] = []
  try {
    for (const key of chosen) {
      const { title, run: measure } = of.sections[key]!
      run.say(title)
      sections.push({ key, title, blocks: await measure(run, state) })
    }
  } finally {
    await of.close?.(state)
  }
  const programs = (of.programs?.() ?? []).filter((each) => each !== null)
  const given = process.argv.slice(2).filter((word) => word !== '--write')
  const command = [`npm run bench:${script}`, ...(given.length > 0 ? ['--', ...given] : [])].join(
    ' ',
  )
  const report = {
    ...{ title: of.title, facts: `\`${command}\`: ${facts(programs)}.`, about: of.about },
    ...{ sections, missing, refused },
  }
  process.stdout.write(options.json ? json(report) : markdown(report))
  for (const why of refused) run.say(`refused: ${why}`)
  if (refused.length > 0) process.exitCode = 1
  else if (write) {
    writeFileSync(join(of.folder, of.file?.(chosen) ?? 'RESULTS.md'), markdown(report))
    for (const block of sections.flatMap(({ blocks }) => blocks))
      if (typeof block === 'object' && 'svg' in block)
        writeFileSync(join(of.folder, block.file), block.svg)
  }
}
