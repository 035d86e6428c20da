/** The command line: parses the arguments and runs a command. */
import { Command, CommanderError } from 'commander'
import { programVersion } from '../../admin/http/version.ts'
import type { CommandStreams } from './command.ts'
import { commands } from './commands.ts'
import { badUsage, CommandError } from './exit-codes.ts'

export const exitCodes = `
Exit codes: 0 done, 1 refused, faults found, or a difference, 64 wrong usage, 65 nothing in the input can be read,
66 no such input, 75 the state folder is in use, 78 wrong configuration.
`
/** All commands. `running` is called when the service runs on after its command. */
export function createProgram(streams: CommandStreams, running: () => void): Command {
  const program = new Command('bidweir')
    .description('Ingress proxy for OpenRTB bid traffic')
    .version(programVersion(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void streams.stdout.write(text),
      writeErr: (text) => void streams.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'bidweir: ')),
    })
    .addHelpText('after', exitCodes)
    .exitOverride()
  for (const add of commands) add(program, streams, running)
  return program
}

/**
 * Runs the command that the arguments name; help and faults of usage go to the streams as well. Returns the exit code; null:
 * the service runs, and ends the process itself.
 */
export async function runCommand(
  argv: readonly string[],
  streams: CommandStreams = process,
): Promise<number | null> {
  let code: number | null = 0
  const program = createProgram(streams, () => {
    code = null
  })
  try {
    await program.parseAsync(argv, { from: 'user' })
    return code
  } catch (error) {
    // Requested help and the version have code 0. Help because of a missing command is wrong usage.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : badUsage
    if (!(error instanceof CommandError)) throw error
    if (error.message !== '') streams.stderr.write(`bidweir: ${error.message}\n`)
    return error.exitCode
  }
}
