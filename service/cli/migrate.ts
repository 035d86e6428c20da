/** `bidweir migrate`: runs the migrations of the database, so that no start has to wait for them. */
import { type CommandStreams, configOf, withStore } from './command.ts'
import { badConfig } from './exit-codes.ts'

export async function migrate(file: string | undefined, streams: CommandStreams): Promise<number> {
  const config = configOf(file, streams)
  if (config === null) return badConfig
  return withStore(config, streams, async ({ migrated }) => {
    for (const id of migrated) streams.stdout.write(`${id}\n`)
    streams.stdout.write('the database is up to date\n')
    return 0
  })
}
