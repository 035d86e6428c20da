/** `bidweir user`: the users of the embedded token endpoint. Passwords come from a prompt or stdin, never from argv. */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import {
  addUser,
  allUsers,
  type Changed,
  changeUser,
  findUser,
  shown,
  type UserVerb,
} from '../../admin/auth/users.ts'
import type { Store } from '../../admin/store/index.ts'
import { type CommandStreams, configOf, withStore } from './command.ts'
import { CommandError } from './exit-codes.ts'

/** One line from a terminal, not echoed. */
async function prompt(
  input: CommandStreams['stdin'],
  out: CommandStreams['stderr'],
  question: string,
): Promise<string> {
  out.write(question)
  const output = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input, output, terminal: true, historySize: 0 })
  try {
    return await new Promise((resolve, reject) => {
      const interrupted = () => reject(new Error('interrupted'))
      lines.once('SIGINT', interrupted).once('close', interrupted).question('', resolve)
    })
  } finally {
    lines.close()
    out.write('\n')
  }
}

async function readPassword({ stdin, stderr }: CommandStreams): Promise<string> {
  if (stdin.isTTY === true) {
    const first = await prompt(stdin, stderr, 'password: ')
    const again = await prompt(stdin, stderr, 'once more: ')
    if (first !== again) throw new Error('the two passwords differ')
    return first
  }
  return (await text(stdin)).replace(/\r?\n$/, '')
}

function table(users: readonly ReturnType<typeof shown>[]): string {
  const rows = [
    ['NAME', 'ROLES', 'ACCOUNT', 'STATE', 'LAST LOG-IN'],
    ...users.map(({ name, roles, account, state, last_login }) => [
      name,
      roles.join(',') || '-',
      account || '-',
      state,
      last_login ?? '-',
    ]),
  ]
  const widths = rows[0]!.map((_, index) => Math.max(...rows.map((row) => row[index]!.length)))
  const line = (row: string[]) => row.map((cell, index) => cell.padEnd(widths[index]!)).join('  ')
  return rows.map((row) => `${line(row).trimEnd()}\n`).join('')
}

const done: Readonly<Record<UserVerb, string>> = {
  passwd: 'has a new password',
  disable: 'is disabled',
  enable: 'is enabled',
  remove: 'is removed',
}
/** Access tokens are self-contained; they stay valid until they expire. */
const tokenNote = ': refresh tokens have ended, access tokens end within 5 minutes'

const refusals: Readonly<Record<Exclude<Changed, 'changed'>, (name: string) => string>> = {
  unknown: (name) => `there is no user ${name}`,
  last_admin: (name) =>
    `${name} is the last enabled user with the role operator and account *: nothing was changed (--force does it)`,
}

/** A user command: returns what it prints, or rejects with the reason why nothing was changed. */
export type UserCommand = (store: Store, streams: CommandStreams) => Promise<string>

export const list =
  (json: boolean): UserCommand =>
  async ({ db }) => {
    const users = (await allUsers(db)).map(shown)
    return json ? `${JSON.stringify(users, null, 2)}\n` : table(users)
  }

export const add =
  (name: string, roles: readonly string[], account: string): UserCommand =>
  async (store, streams) => {
    const password = await readPassword(streams)
    if (!(await addUser(store, { name, password, roles, account })))
      throw new Error(`there is a user ${name} already; nothing was changed`)
    if (roles.length === 0)
      streams.stderr.write(`bidweir: warning: ${name} has no role and may call nothing\n`)
    return `user ${name}: roles ${roles.join(', ') || 'none'}, account ${account || 'none'}\n`
  }

export const change =
  (name: string, verb: UserVerb, force: boolean): UserCommand =>
  async (store, streams) => {
    // Checked before the prompt, so that nobody types a password for a user who does not exist.
    if ((await findUser(store.db, name)) === null) throw new Error(refusals.unknown(name))
    const password = verb === 'passwd' ? await readPassword(streams) : ''
    const changed = await changeUser(store, name, verb, { password, force })
    if (changed !== 'changed') throw new Error(refusals[changed](name))
    return `user ${name} ${done[verb]}${verb === 'enable' ? '' : tokenNote}\n`
  }

/** Works while the service runs and while it does not: the store is shared, and the state folder is not locked. */
export async function withUsers(
  file: string | undefined,
  streams: CommandStreams,
  command: UserCommand,
): Promise<void> {
  const config = await configOf(file, streams)
  if ('issuer' in config.admin.auth)
    throw new CommandError(1, 'the users are those of the external issuer')
  return withStore(config, streams, (store) => command(store, streams))
}
