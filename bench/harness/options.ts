/** The options of a benchmark as a table, which gives them their types, their checks and their help. */
import { Command, InvalidArgumentError, Option } from 'commander'

interface Given {
  /** The default; its type is the option's. Numbers are whole, booleans are flags. */
  value: string | number | boolean
  help: string
  least?: number
  oneOf?: readonly string[]
  valid?: (text: string) => boolean
}
export type Options = Readonly<Record<string, Given>>
type Widened<T> = T extends number ? number : T extends boolean ? boolean : string
export type Values<O extends Options> = { [K in keyof O]: Widened<O[K]['value']> }

function optionOf(name: string, { value, help, least = 0, oneOf, valid }: Given): Option {
  if (typeof value === 'boolean') return new Option(`--${name}`, help)
  const option = new Option(`--${name} <${typeof value}>`, help)
  if (value !== '') option.default(value)
  if (oneOf !== undefined) return option.choices(oneOf)
  return option.argParser((text) => {
    if (typeof value !== 'number' && (valid?.(text) ?? true)) return text
    if (typeof value === 'number' && /^\d+$/.test(text) && Number(text) >= least)
      return Number(text)
    throw new InvalidArgumentError(typeof value === 'number' ? `Not a number from ${least}.` : help)
  })
}

/** The options of this process; a wrong one ends it with 64, `--help` with 0. */
export function optionsOf<O extends Options>(script: string, options: O): Values<O> {
  const command = new Command(`npm run bench:${script} --`)
    .helpOption('--help', 'print this help')
    .showHelpAfterError()
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 64))
  for (const [name, given] of Object.entries(options)) command.addOption(optionOf(name, given))
  const defaults = Object.entries(options).map(([name, { value }]) => [name, value])
  return { ...Object.fromEntries(defaults), ...command.parse().opts() }
}
