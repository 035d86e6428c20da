/** The command line: parses the arguments and runs a command. */
import { Command, CommanderError } from 'commander'
import { programVersion } from '../../admin/http/version.ts'
import type { CommandStreams } from './command.ts'
import { type Code, commands, type Handle } from './commands.ts'
import { badUsage } from './exit-codes.ts'

export const exitCodes = `
Exit codes: 0 done, 1 refused or faults found, 64 wrong usage, 65 nothing in the input can be read,
66 no such input, 75 the state folder is in use, 78 wrong configuration.
`
/** All commands; `finish` receives the exit code of the one that ran. */
export function createProgram(streams: CommandStreams, finish: (code: Code) => void): Command {
  const handle: Handle =
    (run) =>
    async (...args) =>
      finish(await run(...args))
  const program = new Command('bidweir')
    .description('Ingress proxy for OpenRTB bid traffic')
    .version(programVersion(), '--version', 'print the version')
    .helpOption('--help', 'print this help')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void streams.stdout.write(text),
      writeErr: (text) => void streams.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'bidweir: ')),
    })
    .addHelpText('after', exitCodes)
    .exitOverride()
  for (const add of commands) add(program, handle, streams)
  return program
}

/** Runs the command that the arguments name; help and faults of usage go to the streams as well. */
export async function runCommand(
  argv: readonly string[],
  streams: CommandStreams = process,
): Promise<Code> {
  let code: Code = null
  const program = createProgram(streams, (result) => {
    code = result
  })
  try {
    await program.parseAsync(argv, { from: 'user' })
    return code
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error
    // Requested help and the version have code 0. Help because of a missing command is wrong usage.
    return error.exitCode === 0 ? 0 : badUsage
  }
}
