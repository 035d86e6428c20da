/** Runs one command within the process of the test: a process of its own takes half a second of CPU to start. */
import { runCommand } from '../../service/cli/index.ts'

export async function commandHere(...argv: string[]) {
  let said = ''
  const output = { write: (text: string) => (said += text) }
  const code = await runCommand(argv, { stdin: process.stdin, stdout: output, stderr: output })
  return { code, said }
}
