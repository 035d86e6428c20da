/** `bidweir check`: checks a configuration without starting. */
import { createLoad } from '../config/loader.ts'
import { warningsOf } from '../runtime-config.ts'
import { type CommandStreams, printFaults } from './command.ts'

export async function check(file: string, streams: CommandStreams): Promise<number> {
  const { stdout } = streams
  const loaded = await createLoad(file)()
  printFaults(loaded, file, streams)
  if (loaded.config !== null)
    for (const warning of warningsOf(loaded.config)) stdout.write(`warning: ${warning}\n`)
  if (loaded.faults.length > 0) return 1
  const { length } = loaded.config!.suppliers
  stdout.write(`${file}: good, ${length} ${length === 1 ? 'supplier' : 'suppliers'}\n`)
  return 0
}
