/** What `bidweir COMMAND` does; a new row is the whole change. */
import { userCommand } from './admin/auth/user-command.ts'
import { openStore } from './admin/store/index.ts'
import { backup, type CopyCommand, parseCopyArgs, restore } from './backup-command.ts'
import { badConfig, badUsage, configOption, inUse, type Run, tell } from './command-line.ts'
import { type Config, jsonSchema } from './config.ts'
import { check, loadConfig } from './config-file.ts'
import { embeddedConfig, newKey } from './embedded.ts'
import { createLog } from './log.ts'
import { modelCommand, parseModelArgs } from './model-command.ts'
import { modelsDirOf, stateDirOf } from './parts.ts'
import { replayCommand } from './replay-command.ts'
import { warningsOf } from './settings.ts'
import { demo, start } from './start-command.ts'
import { InUseError, lockState } from './state-lock.ts'

const { stdout, stderr } = process

const checkCommand: Run = async (argv) => {
  const options = configOption(argv, true)
  if (options === null) return badUsage
  const file = options.file!
  const loaded = loadConfig(file)
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

/** `backup DIR` and `restore DIR`: 75 where another process has the state, 1 where it cannot be done. */
const copying =
  (name: CopyCommand): Run =>
  async (argv) => {
    let args: ReturnType<typeof parseCopyArgs>
    try {
      args = parseCopyArgs(name, argv)
    } catch (error) {
      stderr.write(`bidweir: ${(error as Error).message}\n`)
      return badUsage
    }
    const { dir, file, force } = args
    const config = configOf(file)
    if (config === null) return badConfig
    const { database } = config.store
    const stateDir = stateDirOf(config)
    const deps = { dir, stateDir, database, stdout }
    try {
      if (name === 'backup') await backup(deps)
      else {
        lockState(stateDir, database)
        restore(deps, force)
      }
      return 0
    } catch (error) {
      stderr.write(`bidweir: ${(error as Error).message}\n`)
      return error instanceof InUseError ? inUse : 1
    }
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
  backup: { usage: 'DIR [--config FILE]', run: copying('backup') },
  restore: { usage: 'DIR [--config FILE] [--force]', run: copying('restore') },
  demo: { usage: '[--listen HOST:PORT] [--admin HOST:PORT] [--state DIR]', run: demo },
  schema: { usage: '', run: schema },
}
