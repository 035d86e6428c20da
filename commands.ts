/** What `bidweir COMMAND` does; a new row is the whole change. */
import { userCommand } from './admin/auth/user-command.ts'
import { openStore } from './admin/store/index.ts'
import { badConfig, badUsage, configOption, type Run, tell } from './command-line.ts'
import { type Config, jsonSchema } from './config.ts'
import { check, loadConfig } from './config-file.ts'
import { createLoad } from './config-loader.ts'
import { embeddedConfig, newKey } from './embedded.ts'
import { createLog } from './log.ts'
import { modelCommand, parseModelArgs } from './model-command.ts'
import { modelsDirOf } from './parts.ts'
import { replayCommand } from './replay-command.ts'
import { warningsOf } from './settings.ts'
import { demo, start } from './start-command.ts'

const { stdout, stderr } = process

const checkCommand: Run = async (argv) => {
  const options = configOption(argv, true)
  if (options === null) return badUsage
  const file = options.file!
  const loaded = await createLoad(file)()
  tell(loaded, file)
  if (loaded.config !== null)
    for (const warning of warningsOf(loaded.config)) stdout.write(`warning: ${warning}\n`)
  if (loaded.faults.length > 0) return 1
  const { length } = loaded.config!.suppliers
  stdout.write(`${file}: good, ${length} ${length === 1 ? 'supplier' : 'suppliers'}\n`)
  return 0
}

const key: Run = async (argv) => {
  if (argv.length !== 1 || argv[0] !== 'new') {
    stderr.write('bidweir: usage: bidweir key new\n')
    return badUsage
  }
  stdout.write(`${newKey()}\n`)
  return 0
}

/** `--config FILE` or `--config=FILE` taken out of arguments that somebody else reads; null: it names no file. */
function withoutConfig(argv: string[]): { file: string | undefined; rest: string[] } | null {
  const at = argv.findIndex((arg) => arg === '--config' || arg.startsWith('--config='))
  if (at < 0) return { file: undefined, rest: argv }
  const joined = argv[at] !== '--config'
  const file = joined ? argv[at]!.slice('--config='.length) : argv[at + 1]
  if (file === undefined || file === '') return null
  return { file, rest: argv.toSpliced(at, joined ? 1 : 2) }
}

/** The configuration that the service beside this command has; null: it is wrong, and stderr says why. */
function configOf(file: string | undefined): Config | null {
  const loaded =
    file === undefined ? check(embeddedConfig('http://127.0.0.1:1/'), '.') : loadConfig(file)
  if (loaded.config === null) tell(loaded, file ?? 'configuration')
  return loaded.config
}

const user: Run = async (argv) => {
  const options = withoutConfig(argv)
  if (options === null) {
    stderr.write('bidweir: --config FILE is wanted\n')
    return badUsage
  }
  const { file, rest } = options
  const config = configOf(file)
  if (config === null) return badConfig
  if ('issuer' in config.admin.auth) {
    stderr.write('bidweir: the users are those of the external issuer\n')
    return 1
  }
  const log = createLog('error')
  const store = await openStore(config.store.database, { now: Date.now, log })
  try {
    return await userCommand(rest, { store, stdin: process.stdin, stdout, stderr })
  } finally {
    await store.close()
  }
}

const model: Run = async (argv) => {
  let args: ReturnType<typeof parseModelArgs>
  try {
    args = parseModelArgs(argv)
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return badUsage
  }
  const { config: file } = args
  const config = configOf(file)
  if (config === null) return badConfig
  const suppliers = new Set(config.suppliers.map(({ id }) => id))
  const dir = modelsDirOf(config)
  return modelCommand(args, { dir, suppliers, stdout, stderr })
}

const schema: Run = async () => {
  stdout.write(`${JSON.stringify(jsonSchema(), null, 2)}\n`)
  return 0
}

export const commands: Readonly<Record<string, { usage: string; run: Run }>> = {
  start: { usage: '[--config FILE]', run: start },
  check: { usage: '--config FILE', run: checkCommand },
  user: { usage: 'add NAME [--config FILE] [--role ROLE]… [--account ACCOUNT]', run: user },
  key: { usage: 'new', run: key },
  replay: {
    usage: 'LOG… [--config FILE] [--format table|json] [--warm-up DURATION] [--pending N]',
    run: (argv) => replayCommand(argv, { stdout, stderr }),
  },
  model: {
    usage: 'list|freeze|unfreeze|rollback [ID]|reset --supplier SSP [--config FILE]',
    run: model,
  },
  demo: { usage: '[--listen HOST:PORT] [--admin HOST:PORT]', run: demo },
  schema: { usage: '', run: schema },
}
