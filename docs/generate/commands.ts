/** The command line, from its program. */
import type { Argument, Command, Option } from 'commander'
import { createProgram, exitCodes } from '../../service/cli/index.ts'
import { code, page, table } from './markdown.ts'

const argumentText = (argument: Argument) => {
  const text = argument.name() + (argument.variadic ? '...' : '')
  return argument.required ? `<${text}>` : `[${text}]`
}

function argumentRow(argument: Argument): string[] {
  return [code(argumentText(argument)), argument.required ? 'required' : '', argument.description]
}

function optionRow({ flags, mandatory, defaultValue, description, argChoices }: Option): string[] {
  const byDefault = mandatory ? 'required' : code(defaultValue ? String(defaultValue) : '')
  const choices = argChoices === undefined ? '' : `: ${argChoices.join(' or ')}`
  return [code(flags), byDefault, description + choices]
}

/** The section of a command with its own and its inherited options; a group of commands has no section. */
function sections(command: Command, path: string, inherited: readonly Option[]): string[] {
  const options = [...inherited, ...command.options.filter(({ long }) => long !== '--version')]
  if (command.commands.length > 0)
    return command.commands.flatMap((each) => sections(each, `${path} ${each.name()}`, options))
  const args = command.registeredArguments
  const usage = [path, ...args.map(argumentText)].join(' ')
  const rows = [...args.map(argumentRow), ...options.map(optionRow)]
  const details =
    rows.length === 0 ? [] : [table(['argument or option', 'default', 'meaning'], rows)]
  return [`## ${code(usage)}`, `${command.description()}.`, ...details]
}

export function commands(): string {
  const program = createProgram(process, () => {})
  return page(
    'Command line',
    '`bidweir --help` and `bidweir COMMAND --help` print the same.',
    ...sections(program, 'bidweir', []),
    '## Exit codes',
    exitCodes.trim().replace(/^Exit codes: /, ''),
  )
}
