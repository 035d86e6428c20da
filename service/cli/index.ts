/** The command line: each command with its options. The module of a command is imported when the command runs. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { type Role, roles } from '../../admin/auth/roles.ts'
import type { UserVerb } from '../../admin/auth/user-changes.ts'
import { programVersion } from '../../admin/http/openapi/version.ts'
import type { CommandStreams } from './command.ts'
import { badUsage } from './exit-codes.ts'
import type { ModelArgs } from './model.ts'
import type { ReplayOptions } from './replay.ts'
import type { UserCall } from './user.ts'

/** The exit code of a command; null: the service runs, and ends the process itself. */
type Code = number | null

export const exitCodes = `
Exit codes: 0 done, 1 refused or faults found, 64 wrong usage, 65 nothing in the input can be read,
66 no such input, 75 the state folder is in use, 78 wrong configuration.
`
const config = [
  '--config <file>',
  'configuration file (default: the embedded configuration)',
] as const
const format = () =>
  new Option('--format <format>', 'output').choices(['table', 'json']).default('table')

function addRole(text: string, before: readonly Role[] = []): readonly Role[] {
  const role = roles.find((each) => each === text)
  if (role === undefined) throw new InvalidArgumentError(`There are ${roles.join(', ')}.`)
  return [...before, role]
}

type Handle = <A extends unknown[]>(
  run: (...args: A) => Promise<Code>,
) => (...args: A) => Promise<void>
type Add = (program: Command, handle: Handle, streams: CommandStreams) => void

const addService: Add = (program, handle) => {
  program
    .command('start')
    .description('run the service')
    .option(...config)
    .action(
      handle(async ({ config }: { config?: string }) => (await import('./start.ts')).start(config)),
    )
  program
    .command('demo')
    .description('run the service with a demo supplier, bid traffic and win notices')
    .option('--listen <host:port>', 'where bid traffic is taken')
    .option('--admin <host:port>', 'where the API and the dashboard are')
    .option('--state <dir>', 'folder for keys, models and the database')
    .action(
      handle(async (at: { listen?: string; admin?: string; state?: string }) =>
        (await import('./start.ts')).demo(at),
      ),
    )
}

const addFiles: Add = (program, handle, streams) => {
  program
    .command('check')
    .description('check a configuration without starting')
    .requiredOption('--config <file>', 'configuration file')
    .action(
      handle(async ({ config }: { config: string }) =>
        (await import('./check.ts')).check(config, streams),
      ),
    )
  program
    .command('schema')
    .description('print the JSON Schema of the configuration')
    .action(
      handle(async () => {
        const { jsonSchema } = await import('../config/schema.ts')
        streams.stdout.write(`${JSON.stringify(jsonSchema(), null, 2)}\n`)
        return 0
      }),
    )
  program
    .command('key')
    .description('keys of the OPD context')
    .command('new')
    .description('print a fresh key')
    .action(handle(async () => (await import('./key.ts')).printKey(streams)))
  program
    .command('replay')
    .description('evaluate a policy on recorded decision logs')
    .argument('<log...>', 'files or folders, also gzip')
    .option(
      '--config <file>',
      'configuration file with the policies (default: the default policies)',
    )
    .addOption(format())
    .option(
      '--warm-up <duration>',
      'learn from the first 30m or 6h, but report nothing of it',
      '0s',
    )
    .option('--pending <bids>', 'most bids that wait for their notice')
    .action(
      handle(async (logs: string[], options: ReplayOptions) =>
        (await import('./replay.ts')).replayCommand(logs, options, streams),
      ),
    )
}

const addCopies: Add = (program, handle, streams) => {
  program
    .command('backup')
    .description('copy the SQLite database, keys and models while the service runs')
    .argument('<dir>', 'an empty folder, or one that does not exist')
    .option(...config)
    .action(
      handle(async (dir: string, { config }: { config?: string }) =>
        (await import('./backup.ts')).backup(config, dir, streams),
      ),
    )
  program
    .command('restore')
    .description('put a backup in place of the state, while no service uses it')
    .argument('<dir>', 'a folder that backup has written')
    .option(...config)
    .option('--force', 'also if there is a state already, which is replaced', false)
    .action(
      handle(async (dir: string, { config, force }: { config?: string; force: boolean }) =>
        (await import('./backup.ts')).restore(config, dir, force, streams),
      ),
    )
}

const addMigrate: Add = (program, handle, streams) => {
  program
    .command('migrate')
    .description('bring the database up to date, without a time limit; a start does the same')
    .option(...config)
    .action(
      handle(async ({ config }: { config?: string }) =>
        (await import('./migrate.ts')).migrate(config, streams),
      ),
    )
}

const addUsers: Add = (program, handle, streams) => {
  const user = program
    .command('user')
    .description(
      'users of the embedded token endpoint; changes hold at once while the service runs',
    )
    .option(...config)
  const run = async (call: UserCall, command: Command): Promise<Code> =>
    (await import('./user.ts')).user(command.optsWithGlobals()['config'], call, streams)
  user
    .command('list')
    .description('print all users')
    .option('--json', 'print JSON', false)
    .action(
      handle(({ json }: { json: boolean }, command: Command) =>
        run({ verb: 'list', json }, command),
      ),
    )
  user
    .command('add')
    .description('add a user; the password comes from a prompt or stdin')
    .argument('<name>')
    .option(
      '--role <role>',
      `${roles.join(', ')}: each includes those before it; may be repeated`,
      addRole,
    )
    .option('--account <account>', 'whose suppliers the user sees; * for all of them')
    .action(
      handle(
        (name: string, options: { role?: readonly Role[]; account?: string }, command: Command) =>
          run(
            { verb: 'add', name, roles: options.role ?? [], account: options.account ?? '' },
            command,
          ),
      ),
    )
  const change = (verb: UserVerb, description: string, forced: boolean) => {
    const command = user.command(verb).description(description).argument('<name>')
    if (forced) command.option('--force', 'also where it is the last user who may do everything')
    command.action(
      handle((name: string, { force = false }: { force?: boolean }, at: Command) =>
        run({ verb, name, force }, at),
      ),
    )
  }
  change('passwd', 'set a password, from a prompt or stdin, and end the refresh tokens', false)
  change('disable', 'refuse log-ins and end the refresh tokens', true)
  change('enable', 'take log-ins again', false)
  change('remove', 'remove a user and end the refresh tokens', true)
}

const addModels: Add = (program, handle, streams) => {
  const model = program
    .command('model')
    .description('the models of a node, while the service runs or not')
    .option(...config)
  const run = async (args: ModelArgs, at: Command) =>
    (await import('./model.ts')).model(at.optsWithGlobals()['config'], args, streams)
  model
    .command('list')
    .description('print the snapshots and the state')
    .addOption(format())
    .action(
      handle(({ format }: { format: string }, at: Command) =>
        run({ verb: 'list', json: format === 'json' }, at),
      ),
    )
  model
    .command('freeze')
    .description('go on deciding, stop learning')
    .action(handle((_options: object, at: Command) => run({ verb: 'freeze' }, at)))
  model
    .command('unfreeze')
    .description('learn again')
    .action(handle((_options: object, at: Command) => run({ verb: 'unfreeze' }, at)))
  model
    .command('rollback')
    .description('go back to a snapshot')
    .argument('[id]', 'the snapshot (default: the one before the newest)')
    .action(
      handle((id: string | undefined, _options: object, at: Command) =>
        run({ verb: 'rollback', id }, at),
      ),
    )
  model
    .command('reset')
    .description('forget what was learned of a supplier')
    .requiredOption('--supplier <ssp>', 'the supplier')
    .action(
      handle(({ supplier }: { supplier: string }, at: Command) =>
        run({ verb: 'reset', supplier }, at),
      ),
    )
}

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
  for (const add of [addService, addFiles, addMigrate, addCopies, addUsers, addModels])
    add(program, handle, streams)
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
