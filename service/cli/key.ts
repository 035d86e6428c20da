/** `bidweir key new`: prints a new key for contexts. */
import { newKey } from '../default-config.ts'
import type { CommandStreams } from './command.ts'

export async function printKey({ stdout }: CommandStreams): Promise<number> {
  stdout.write(`${newKey()}\n`)
  return 0
}
