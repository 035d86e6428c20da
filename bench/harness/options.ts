/** One kind of command line for all benchmarks: a table of options, checked, with a usage made from it. */
import { parseArgs } from 'node:util'

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
