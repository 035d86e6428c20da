/** `bidweir user add NAME [--role R]… [--account A]`: the password comes from a prompt or stdin, never from argv. */
import type { ReadStream, WriteStream } from 'node:tty'
import { parseArgs } from 'node:util'
import type { Store } from '../store/index.ts'
import { addUser, knownRoles } from './users.ts'

interface Streams {
  store: Store
  stdin: NodeJS.ReadStream
  stdout: NodeJS.WritableStream
  stderr: NodeJS.WritableStream
}

/** One line from a terminal, not echoed. */
function prompt(stdin: ReadStream, out: NodeJS.WritableStream, question: string): Promise<string> {
  out.write(question)
  return new Promise((resolve, reject) => {
    let text = ''
    stdin.setRawMode(true)
    const done = (end: () => void) => {
      stdin.off('data', take)
      stdin.setRawMode(false)
      stdin.pause()
      out.write('\n')
      end()
    }
    const take = (chunk: Buffer | string) => {
      for (const letter of String(chunk)) {
        if (letter === '\r' || letter === '\n') return done(() => resolve(text))
        if (letter === '\u0003') return done(() => reject(new Error('interrupted')))
        if (letter === '\u007f' || letter === '\b') text = text.slice(0, -1)
        else text += letter
      }
    }
    stdin.on('data', take)
    stdin.resume()
  })
}

async function readPassword({ stdin, stderr }: Streams): Promise<string> {
  if (stdin.isTTY) {
    const first = await prompt(stdin as ReadStream, stderr as WriteStream, 'password: ')
    const again = await prompt(stdin as ReadStream, stderr as WriteStream, 'once more: ')
    if (first !== again) throw new Error('the two passwords differ')
    return first
  }
  const chunks: Buffer[] = []
  for await (const chunk of stdin) chunks.push(Buffer.from(chunk))
  return Buffer.concat(chunks)
    .toString()
    .replace(/\r?\n$/, '')
}

/** 0 done, 1 refused, 64 wrong usage. */
export async function userCommand(argv: string[], streams: Streams): Promise<number> {
  const { store, stdout, stderr } = streams
  let name: string | undefined
  let roles: string[] = []
  let account = ''
  try {
    const { positionals, values } = parseArgs({
      args: argv,
      allowPositionals: true,
      options: { role: { type: 'string', multiple: true }, account: { type: 'string' } },
    })
    const [verb, given, ...more] = positionals
    if (verb !== 'add' || given === undefined || more.length > 0)
      throw new Error('user add NAME is wanted')
    name = given
    roles = values.role ?? []
    account = values.account ?? ''
    const unknown = roles.find((role) => !knownRoles.includes(role))
    if (unknown !== undefined)
      throw new Error(`no such role: ${unknown} (${knownRoles.join(', ')})`)
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return 64
  }
  try {
    const password = await readPassword(streams)
    if (!(await addUser(store, { name, password, roles, account })))
      throw new Error(`there is a user ${name} already; nothing was changed`)
  } catch (error) {
    stderr.write(`bidweir: ${(error as Error).message}\n`)
    return 1
  }
  stdout.write(`user ${name}: roles ${roles.join(', ') || 'none'}, account ${account || 'none'}\n`)
  return 0
}
