/** `bidweir check` and `bidweir migrate`: what can be done before a start, so that it neither fails nor waits. */
import { createLoad } from '../config/loader.ts'
import { warningsOf } from '../config/warnings.ts'
import { type CommandStreams, configOf, printFaults, withStore } from './command.ts'
import { CommandError } from './exit-codes.ts'

export async function check(file: string, streams: CommandStreams): Promise<void> {
  const { stdout } = streams
  const loaded = await createLoad(file)()
  printFaults(loaded, file, streams)
  if (loaded.config !== null)
    for (const warning of warningsOf(loaded.config)) stdout.write(`warning: ${warning}\n`)
  if (loaded.faults.length > 0) throw new CommandError(1, '')
  const { length } = loaded.config!.suppliers
  stdout.write(`${file}: good, ${length} ${length === 1 ? 'supplier' : 'suppliers'}\n`)
}

/** Runs the migrations of the database. */
export async function migrate(file: string | undefined, streams: CommandStreams): Promise<void> {
  await withStore(await configOf(file, streams), streams, async ({ migrated }) =>
    [...migrated, 'the database is up to date\n'].join('\n'),
  )
}
