/** What commands share: streams, the configuration and the store. */
import type { Store } from '../../admin/store/index.ts'
import { check, type LoadedConfig } from '../config/check.ts'
import { faultLine } from '../config/faults.ts'
import type { Config } from '../config/schema.ts'
import { defaultConfig } from '../default-config.ts'

export interface CommandStreams {
  stdin: NodeJS.ReadableStream & { isTTY?: boolean }
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}

/** Writes the faults of a configuration to stderr. */
export function printFaults(
  loaded: LoadedConfig,
  file: string,
  { stderr }: Pick<CommandStreams, 'stderr'> = process,
): void {
  for (const fault of loaded.faults) stderr.write(`${faultLine(fault, file)}\n`)
}

/** The configuration that the service would use; null if it has faults, which are written to stderr. */
export async function configOf(
  file: string | undefined,
  streams: CommandStreams,
): Promise<Config | null> {
  const loaded =
    file === undefined
      ? check(defaultConfig('http://127.0.0.1:1/'), '.')
      : (await import('../config/load.ts')).loadConfig(file)
  if (loaded.config === null) printFaults(loaded, file ?? 'configuration', streams)
  return loaded.config
}

/** Runs `work` with the store. The exit code is 1 if the store cannot be reached. */
export async function withStore(
  { store: { database } }: Config,
  { stderr }: CommandStreams,
  work: (store: Store) => Promise<number>,
): Promise<number> {
  const { openStore } = await import('../../admin/store/index.ts')
  const { createLog } = await import('../log.ts')
  try {
    const store = await openStore(database, { now: Date.now, log: createLog('error') })
    const code = await work(store)
    await store.close()
    return code
  } catch (error) {
    stderr.write(`bidweir: the store cannot be used: ${(error as Error).message}\n`)
    return 1
  }
}
