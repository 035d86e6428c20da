/** The commands with their options. The module of a command is imported when the command runs. */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import type { UserVerb } from '../../admin/auth/users.ts'
import { type Role, roles } from '../../admin/http/roles.ts'
import { logLevels } from '../log/levels.ts'
import type { BackupOptions } from './backup.ts'
import type { CommandStreams } from './command.ts'
import type { ModelCommand } from './model.ts'
import type { ImportOptions } from './notices.ts'
import type { ReplayOptions } from './replay.ts'
import type { UserCommand } from './user.ts'

const config = [
  '--config <file>',
  'configuration file (default: the built-in configuration, state in data/)',
] as const
const format = () =>
  new Option('--format <format>', 'output').choices(['table', 'json']).default('table')

function addRole(text: string, before: readonly Role[] = []): readonly Role[] {
  const role = roles.find((role) => role === text)
  if (role === undefined) throw new InvalidArgumentError(`Roles are ${roles.join(', ')}.`)
  return [...before, role]
}

function revision(text: string): number {
  if (!/^\d{1,15}$/.test(text))
    throw new InvalidArgumentError('A revision as `bidweir diff` prints it, such as 17.')
  return Number(text)
}

function wholeNumber(text: string): number {
  if (!/^[1-9]\d{0,3}$/.test(text)) throw new InvalidArgumentError('A number from 1 to 9999.')
  return Number(text)
}

/** `running` is called when the service runs on after its command. */
type Add = (program: Command, streams: CommandStreams, running: () => void) => void

const addService: Add = (program, _streams, running) => {
  program
    .command('start')
    .description('run the service')
    .option(...config)
    .addOption(new Option('--listen <host:port>', 'address of bid traffic').conflicts('config'))
    .addOption(
      new Option('--admin <host:port>', 'address of the API and the console').conflicts('config'),
    )
    .action(
      async ({ config, ...addresses }: { config?: string; listen?: string; admin?: string }) => {
        await (await import('./start.ts')).start(config, addresses)
        running()
      },
    )
  program
    .command('demo')
    .description('run the service with a demo supplier, bid traffic and win notices')
    .option('--listen <host:port>', 'address of bid traffic')
    .option('--admin <host:port>', 'address of the API and the console')
    .option('--state <dir>', 'folder for keys, models and the database')
    .addOption(
      new Option('--scenario <name>', 'another supplier for which OPD earns nothing').choices([
        ...['no-macro', 'no-notices', 'refused-notices', 'wrong-prices', 'all'],
      ]),
    )
    .action(
      async (addresses: { listen?: string; admin?: string; state?: string; scenario?: string }) => {
        await (await import('./start.ts')).demo(addresses)
        running()
      },
    )
}

const addFiles: Add = (program, streams) => {
  program
    .command('check')
    .description('check a configuration without starting')
    .requiredOption('--config <file>', 'configuration file')
    .action(async ({ config }: { config: string }) =>
      (await import('./check.ts')).check(config, streams),
    )
  program
    .command('schema')
    .description('print the JSON Schema of the configuration')
    .action(async () => {
      const { jsonSchema } = await import('../config/schema.ts')
      streams.stdout.write(`${JSON.stringify(jsonSchema(), null, 2)}\n`)
    })
  program
    .command('key')
    .description('keys of the OPD context')
    .command('new')
    .description('print a fresh context key: 32 bytes, base64url')
    .action(async () => {
      const { newKey } = await import('../context-keys.ts')
      streams.stdout.write(`${newKey()}\n`)
    })
  program
    .command('replay')
    .description('evaluate a configuration on decision logs')
    .argument('<log...>', 'files or folders of opd.decisionLog, also gzip')
    .option(
      '--config <file>',
      'configuration file whose opd blocks are evaluated (default: an empty opd block)',
    )
    .addOption(format())
    .option(
      '--warm-up <duration>',
      'time at the start that trains the model and is not reported, such as 30m',
      '0s',
    )
    .option(
      '--pending <bids>',
      'most bids that wait for their notice, about 2 KB each (default: 500,000)',
    )
    .action(async (logs: string[], options: ReplayOptions) =>
      (await import('./replay.ts')).replayCommand(logs, options, streams),
    )
}

const addStore: Add = (program, streams) => {
  program
    .command('migrate')
    .description('bring the database up to date, without a time limit; a start does the same')
    .option(...config)
    .action(async ({ config }: { config?: string }) =>
      (await import('./check.ts')).migrate(config, streams),
    )
  program
    .command('backup')
    .description('copy database, keys, models and configuration while the service runs')
    .argument('<target>', 'an empty folder, or one that does not exist, or s3://BUCKET/PREFIX')
    .option(...config)
    .option(
      '--keep <n>',
      'copy into a new folder below <target>, named by the time, and remove all but the newest n',
      wholeNumber,
    )
    .option('--no-database', 'without the rows of PostgreSQL, which has backups of its own')
    .action(async (target: string, { config, ...options }: BackupOptions & { config?: string }) =>
      (await import('./backup.ts')).backup(config, target, streams, options),
    )
  program
    .command('restore')
    .description('replace the state by a backup; no service may use the state')
    .argument('<source>', 'a folder that backup has written, or s3://BUCKET/PREFIX')
    .option(...config)
    .option('--force', 'even if a state exists, which is then replaced', false)
    .action(async (source: string, { config, force }: { config?: string; force: boolean }) =>
      (await import('./backup.ts')).restore(config, source, force, streams),
    )
}

const addSuppliers: Add = (program, streams) => {
  const list = [
    '-f, --file <file>',
    'YAML or JSON: a list of suppliers, or `suppliers: […]`',
  ] as const
  program
    .command('apply')
    .description(
      'make the suppliers of the API equal to a list, all or nothing; those that it lacks are deleted',
    )
    .requiredOption(...list)
    .option('--dry-run', 'print what would be changed, and change nothing', false)
    .option(
      '--if-match <revision>',
      'change nothing if a supplier of the API has changed since this revision, which `diff` and `--dry-run` print',
      revision,
    )
    .option(...config)
    .action(async (options: { file: string; config?: string; dryRun: boolean; ifMatch?: number }) =>
      (await import('./suppliers.ts')).apply(options, streams),
    )
  program
    .command('diff')
    .description('print how a list differs from the suppliers of the API; exits with 1 if it does')
    .requiredOption(...list)
    .option(...config)
    .action(async (options: { file: string; config?: string }) =>
      (await import('./suppliers.ts')).diff(options, streams),
    )
}

const addUsers: Add = (program, streams) => {
  const user = program
    .command('user')
    .description(
      'users of the embedded token endpoint; changes take effect at once while the service runs',
    )
    .option(...config)
  const run = async (command: UserCommand) =>
    (await import('./user.ts')).withUsers(user.opts()['config'], streams, command)
  user
    .command('list')
    .description('print all users')
    .option('--json', 'print JSON', false)
    .action(async ({ json }: { json: boolean }) => run((await import('./user.ts')).list(json)))
  user
    .command('add')
    .description('add a user; the password comes from a prompt or stdin')
    .argument('<name>', 'name of the user')
    .option(
      '--role <role>',
      `${roles.join(', ')}: each includes those before it; may be repeated (default: none)`,
      addRole,
    )
    .option(
      '--account <account>',
      'account whose suppliers the user sees; * for all (default: none)',
    )
    .action(
      async (name: string, { role = [], account = '' }: { role?: Role[]; account?: string }) =>
        run((await import('./user.ts')).add(name, role, account)),
    )
  const change = (verb: UserVerb, description: string, forced: boolean) => {
    const command = user
      .command(verb)
      .description(description)
      .argument('<name>', 'name of the user')
    if (forced) command.option('--force', 'even if it is the last user with all permissions')
    command.action(async (name: string, { force = false }: { force?: boolean }) =>
      run((await import('./user.ts')).change(name, verb, force)),
    )
  }
  change('passwd', 'set a password, from a prompt or stdin, and end the refresh tokens', false)
  change('disable', 'refuse log-ins and end the refresh tokens', true)
  change('enable', 'accept log-ins again', false)
  change('remove', 'remove a user and end the refresh tokens', true)
}

const addModels: Add = (program, streams) => {
  const model = program
    .command('model')
    .description('the snapshots of this node; freeze, roll back or reset the models of all nodes')
    .option(...config)
  const run = async (command: ModelCommand) =>
    (await import('./model.ts')).withModels(model.opts()['config'], streams, command)
  model
    .command('list')
    .description('print the snapshots and the state')
    .addOption(format())
    .action(async ({ format }: { format: string }) =>
      run((await import('./model.ts')).list(format === 'json')),
    )
  model
    .command('freeze')
    .description('stop learning and continue to decide')
    .action(async () => run((await import('./model.ts')).freeze(true)))
  model
    .command('unfreeze')
    .description('continue to learn')
    .action(async () => run((await import('./model.ts')).freeze(false)))
  model
    .command('rollback')
    .description('go back to a snapshot')
    .argument('[id]', 'the snapshot (default: the one before the newest)')
    .action(async (id: string | undefined) => run((await import('./model.ts')).rollback(id)))
  model
    .command('export')
    .description('write the newest snapshots to a signed file, for nodes with models.from')
    .argument('<file>', 'the file, which is replaced')
    .action(async (file: string) => run((await import('./model.ts')).exportTo(file)))
  model
    .command('reset')
    .description('forget what the model has learned about a supplier')
    .requiredOption('--supplier <ssp>', 'the supplier')
    .action(async ({ supplier }: { supplier: string }) =>
      run((await import('./model.ts')).reset(supplier)),
    )
}

const addDebug: Add = (program, streams) => {
  const debug = program
    .command('debug')
    .description('ask the service that runs with this state folder, as its user')
    .option(...config)
  const process = [
    '--process <n>',
    'process of the node: 0 is the first, others are those of proxy.workers',
    '0',
  ] as const
  const output = ['--output <file>', 'file to write, or - for stdout'] as const
  const file = async (call: string, output: string | undefined) =>
    (await import('./debug.ts')).saved({ ...debug.opts(), output }, streams, call)
  debug
    .command('profile')
    .description('write a CPU profile; bids are served meanwhile')
    .option('--seconds <n>', 'length, up to 60', '10')
    .option(...process)
    .option(...output)
    .action(({ output, ...query }: { output?: string; seconds: string; process: string }) =>
      file(`profile/?${new URLSearchParams(query)}`, output),
    )
  debug
    .command('heap')
    .description('write a heap snapshot; the process serves nothing meanwhile')
    .option(...process)
    .option(...output)
    .action(({ output, ...query }: { output?: string; process: string }) =>
      file(`heap/?${new URLSearchParams(query)}`, output),
    )
  debug
    .command('log')
    .description('print the level of the log, or change it for some minutes')
    .addArgument(new Argument('[level]', 'lowest level that is logged').choices(logLevels))
    .option('--minutes <n>', 'time until the configured level is back, up to 60', wholeNumber, 10)
    .action(async (level: string | undefined, { minutes }: { minutes: number }) =>
      (await import('./debug.ts')).log(debug.opts(), streams, level, minutes),
    )
  debug
    .command('refused')
    .description('print the last 100 bid requests without a response of their supplier')
    .option('--outcome <outcome>', 'only these, such as overload')
    .option('--ssp <id>', 'only those of this supplier')
    .addOption(format())
    .action(async ({ format, ...query }: { format: string; outcome?: string; ssp?: string }) =>
      (await import('./debug.ts')).refused({ ...debug.opts(), format }, streams, query),
    )
  debug
    .command('turns')
    .description('print the last late turns of the event loops, and what ran in them')
    .addOption(format())
    .action(async ({ format }: { format: string }) =>
      (await import('./debug.ts')).turns({ ...debug.opts(), format }, streams),
    )
}

const addNotices: Add = (program, streams) => {
  const repeated = (value: string, before: string[] = []) => [...before, value]
  program
    .command('notices')
    .description('win and loss notices')
    .command('import')
    .description('take wins and losses from files; a notice that was taken before changes nothing')
    .argument('<file...>', 'NDJSON, or CSV with a header, also gzip: bid_id, price, event, time, …')
    .option(
      '--log <path>',
      'decision log with contexts, file or folder, may be repeated (default: opd.decisionLog)',
      repeated,
    )
    .option(
      '--column <name=column>',
      'column or member that has a value, such as price=win_price, may be repeated',
      repeated,
    )
    .option(
      '--complete',
      'the files have all wins: other bids of sealed nodes in the logs are lost',
      false,
    )
    .option(...config)
    .action(async (files: string[], options: ImportOptions) =>
      (await import('./notices.ts')).importNotices(files, options, streams),
    )
}

export const commands: readonly Add[] = [
  addService,
  addFiles,
  addStore,
  addSuppliers,
  addUsers,
  addModels,
  addDebug,
  addNotices,
]
