/** What commands share: exit codes, how options are read and faults told. */
import { parseArgs } from 'node:util'
import { faultLine, type LoadedConfig } from './config-file.ts'

/** EX_CONFIG of sysexits.h. */
export const badConfig = 78
export const badUsage = 64
/** EX_TEMPFAIL: another process has the state, and the same command works once that has ended. */
export const inUse = 75

const { stderr } = process

export type Run = (argv: string[]) => Promise<number | null>

/** `--config FILE`, or null and a word on stderr where the arguments are others. */
export function configOption(argv: string[], wanted: boolean): { file: string | undefined } | null {
  try {
    const { values } = parseArgs({ args: argv, options: { config: { type: 'string' } } })
    if (wanted && values.config === undefined) throw new Error('--config FILE is wanted')
    return { file: values.config }
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return null
  }
}

export const tell = (loaded: LoadedConfig, file: string) => {
  for (const fault of loaded.faults) stderr.write(`${faultLine(fault, file)}\n`)
}
