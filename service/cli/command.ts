/** What commands share: streams, the configuration and the store. */
import type { Store } from '../../admin/store/index.ts'
import { check, type LoadedConfig } from '../config/check.ts'
import { faultLine } from '../config/faults.ts'
import type { Config } from '../config/schema.ts'
import { defaultConfig } from '../default-config.ts'
import { badConfig, CommandError } from './exit-codes.ts'

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

/** The configuration that the service would use. Its faults are written to stderr, and end the command. */
export const configOf = async (
  file: string | undefined,
  streams: CommandStreams,
): Promise<Config> => (await loadedOf(file, streams)).config

/** As `configOf`, with the file of each supplier. */
export async function loadedOf(
  file: string | undefined,
  streams: CommandStreams,
): Promise<LoadedConfig & { config: Config }> {
  const loaded =
    file === undefined
      ? check(defaultConfig('http://127.0.0.1:1/'), '.')
      : (await import('../config/load.ts')).loadConfig(file)
  const { config } = loaded
  if (config !== null) return { ...loaded, config }
  printFaults(loaded, file ?? 'configuration', streams)
  throw new CommandError(badConfig, '')
}

/** Writes the text that `work` resolves to. What it rejects with ends the command. */
export async function withStore(
  { store: { database } }: Config,
  { stdout }: CommandStreams,
  work: (store: Store) => Promise<string>,
): Promise<void> {
  const { openStore } = await import('../../admin/store/index.ts')
  const { createLog } = await import('../log/log.ts')
  const options = { now: Date.now, log: createLog('error') }
  const store = await openStore(database, options).catch((error: Error) => {
    throw new CommandError(1, `the store cannot be used: ${error.message}`)
  })
  try {
    stdout.write(await work(store))
  } catch (error) {
    throw new CommandError(1, (error as Error).message)
  } finally {
    await store.close()
  }
}
