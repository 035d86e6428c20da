/** Commands that act on what a configuration names: the file itself, its users, its models. */

import type { Store } from '../../admin/store/index.ts'
import { check as checkValue, faultLine, type LoadedConfig, loadConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { defaultConfig } from '../default-config.ts'
import { createLog } from '../log.ts'
import { warningsOf } from '../runtime-config.ts'
import { badConfig, type CommandStreams, inUse } from './command-line.ts'
import type { ModelArgs } from './model.ts'
import type { UserCall } from './user.ts'

export function printFaults(
  loaded: LoadedConfig,
  file: string,
  { stderr }: Pick<CommandStreams, 'stderr'> = process,
): void {
  for (const fault of loaded.faults) stderr.write(`${faultLine(fault, file)}\n`)
}

export async function check(file: string, streams: CommandStreams): Promise<number> {
  const { stdout } = streams
  const { createLoad } = await import('../config/loader.ts')
  const loaded = await createLoad(file)()
  printFaults(loaded, file, streams)
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
    file === undefined ? checkValue(defaultConfig('http://127.0.0.1:1/'), '.') : loadConfig(file)
  if (loaded.config === null) printFaults(loaded, file ?? 'configuration', streams)
  return loaded.config
}

/** 1 if the store cannot be reached. */
async function withStore(
  { store: { database } }: Config,
  { stderr }: CommandStreams,
  work: (store: Store) => Promise<number>,
): Promise<number> {
  const { openStore } = await import('../../admin/store/index.ts')
  try {
    const store = await openStore(database, { now: Date.now, log: createLog('error') })
    const code = await work(store)
    await store.close()
    return code
  } catch (error) {
    stderr.write(`bidweir: the store does not answer: ${(error as Error).message}\n`)
    return 1
  }
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
  const { userCommand } = await import('./user.ts')
  return withStore(config, streams, (store) => userCommand(store, call, streams))
}

export async function model(
  file: string | undefined,
  args: ModelArgs,
  streams: CommandStreams,
): Promise<number> {
  const { stdout, stderr } = streams
  const config = configOf(file, streams)
  if (config === null) return badConfig
  const { modelsDirOf } = await import('../data-plane.ts')
  const { modelCommand } = await import('./model.ts')
  const suppliers = new Set(config.suppliers.map(({ id }) => id))
  return withStore(config, streams, (store) =>
    modelCommand(args, {
      ...{ store, dir: modelsDirOf(config), suppliers, now: Date.now },
      ...{ stdout, stderr },
    }),
  )
}

/** Runs a copy command; 75 if another process has the state, 1 if it cannot be done. */
async function withState(
  file: string | undefined,
  streams: CommandStreams,
  work: (state: { stateDir: string; database: string }) => Promise<void> | void,
): Promise<number> {
  const config = configOf(file, streams)
  if (config === null) return badConfig
  const { stateDirOf } = await import('../data-plane.ts')
  const { InUseError } = await import('../state-lock.ts')
  try {
    await work({ stateDir: stateDirOf(config), database: config.store.database })
    return 0
  } catch (error) {
    streams.stderr.write(`bidweir: ${(error as Error).message}\n`)
    return error instanceof InUseError ? inUse : 1
  }
}

export function backup(
  file: string | undefined,
  dir: string,
  streams: CommandStreams,
): Promise<number> {
  return withState(file, streams, async (state) => {
    const { backup } = await import('./backup.ts')
    await backup({ ...state, dir, stdout: streams.stdout })
  })
}

export function restore(
  file: string | undefined,
  dir: string,
  force: boolean,
  streams: CommandStreams,
): Promise<number> {
  return withState(file, streams, async (state) => {
    const { restore } = await import('./backup.ts')
    const { lockState } = await import('../state-lock.ts')
    lockState(state.stateDir, state.database)
    restore({ ...state, dir, stdout: streams.stdout }, force)
  })
}
