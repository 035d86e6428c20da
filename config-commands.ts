/** Commands that act on what a configuration names: the file itself, its users, its models. */
import type { UserCall } from './admin/auth/user-command.ts'
import { badConfig, type CommandStreams } from './command-line.ts'
import type { Config } from './config.ts'
import { check as checkValue, faultLine, type LoadedConfig, loadConfig } from './config-file.ts'
import { embeddedConfig } from './embedded.ts'
import { createLog } from './log.ts'
import type { ModelArgs } from './model-command.ts'
import { warningsOf } from './settings.ts'

export function tell(
  loaded: LoadedConfig,
  file: string,
  { stderr }: Pick<CommandStreams, 'stderr'> = process,
): void {
  for (const fault of loaded.faults) stderr.write(`${faultLine(fault, file)}\n`)
}

export async function check(file: string, streams: CommandStreams): Promise<number> {
  const { stdout } = streams
  const loaded = loadConfig(file)
  tell(loaded, file, streams)
  if (loaded.config !== null)
    for (const warning of warningsOf(loaded.config)) stdout.write(`warning: ${warning}\n`)
  if (loaded.faults.length > 0) return 1
  const { length } = loaded.config!.suppliers
  stdout.write(`${file}: good, ${length} ${length === 1 ? 'supplier' : 'suppliers'}\n`)
  return 0
}

/** The configuration that the service beside this command has; null: it is wrong, and stderr says why. */
function configOf(file: string | undefined, streams: CommandStreams): Config | null {
  const loaded =
    file === undefined ? checkValue(embeddedConfig('http://127.0.0.1:1/'), '.') : loadConfig(file)
  if (loaded.config === null) tell(loaded, file ?? 'configuration', streams)
  return loaded.config
}

/** Beside a running service or without one: the store is shared, the state folder is not claimed. */
export async function user(
  file: string | undefined,
  call: UserCall,
  streams: CommandStreams,
): Promise<number> {
  const config = configOf(file, streams)
  if (config === null) return badConfig
  if ('issuer' in config.admin.auth) {
    streams.stderr.write('bidweir: the users are those of the external issuer\n')
    return 1
  }
  const { openStore } = await import('./admin/store/index.ts')
  const { userCommand } = await import('./admin/auth/user-command.ts')
  const log = createLog('error')
  try {
    const store = await openStore(config.store.database, { now: Date.now, log })
    const code = await userCommand(store, call, streams)
    await store.close()
    return code
  } catch (error) {
    streams.stderr.write(`bidweir: the store does not answer: ${(error as Error).message}\n`)
    return 1
  }
}

export async function model(
  file: string | undefined,
  args: ModelArgs,
  streams: CommandStreams,
): Promise<number> {
  const { stdout, stderr } = streams
  const config = configOf(file, streams)
  if (config === null) return badConfig
  const { modelsDirOf } = await import('./parts.ts')
  const { modelCommand } = await import('./model-command.ts')
  const suppliers = new Set(config.suppliers.map(({ id }) => id))
  return modelCommand(args, { dir: modelsDirOf(config), suppliers, stdout, stderr })
}
