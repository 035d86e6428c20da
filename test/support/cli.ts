/** A command in the process of the test: one of its own costs half a second of CPU to start. */
import { Readable } from 'node:stream'
import { runCommand } from '../../service/cli/index.ts'
import './cheap-passwords.ts'

/** Runs a command that ends. Relative paths are relative to the folder of the test runner. */
export async function runHere(argv: readonly string[], stdin = '') {
  let [stdout, stderr] = ['', '']
  const code = await runCommand(argv, {
    stdin: Readable.from([Buffer.from(stdin)]),
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
  })
  return { code, stdout, stderr }
}
