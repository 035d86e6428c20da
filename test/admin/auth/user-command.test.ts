/** `bidweir user` on both databases: accepted and refused input, and the output (CONTRACT 1). */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { logIn } from '../../../admin/auth/users.ts'
import { runCommand } from '../../../service/cli/index.ts'
import { newFolder } from '../../support/process.ts'
import { onBoth, storeAt } from '../../support/store.ts'

const key = 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'

/** A terminal on which somebody types these lines. */
function terminal(lines: readonly string[]) {
  const stdin = new PassThrough() as unknown as NodeJS.ReadStream
  let raw = false
  Object.assign(stdin, { isTTY: true, setRawMode: (on: boolean) => (raw = on) })
  const left = [...lines]
  /** At each question the next line, if it is not echoed. */
  const asked = () => setImmediate(() => raw && stdin.emit('data', `${left.shift()}\r`))
  return { stdin, asked }
}

t.test('a store that does not open is said in one line', async (t) => {
  const file = join(newFolder(), 'c.yaml')
  writeFileSync(file, 'store: {database: "sqlite:/dev/null/b.db"}\n')
  let err = ''
  const code = await runCommand(['user', 'list', '--config', file], {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: { write: (text) => (err += text) },
  })
  t.equal(code, 1)
  t.match(err, /^bidweir: the store cannot be used: [^\n]+\n$/)
})

onBoth(async (t, database) => {
  const store = await storeAt(t, database)
  const file = join(newFolder(), 'c.yaml')
  writeFileSync(
    file,
    `store: {database: '${database.url}'}\nopd: {keys: [{id: 1, secret: ${key}}]}\n`,
  )
  const run = async (argv: string[], input: string | readonly string[] = '') => {
    let [out, err] = ['', '']
    const typed = typeof input === 'string' ? null : terminal(input)
    const code = await runCommand(['user', ...argv, '--config', file], {
      stdin: typed?.stdin ?? Readable.from([Buffer.from(input as string)]),
      stdout: { write: (text) => (out += text) },
      stderr: {
        write(text) {
          err += text
          if (/: $/.test(text)) typed?.asked()
        },
      },
    })
    return { code, out, err }
  }

  await t.test('add: password from stdin, roles and account by option', async (t) => {
    const options = ['--role', 'api', '--role', 'operator', '--account', 'acme']
    const added = await run(['add', 'ann', ...options], 'long pw \n\n')
    t.match(added, { code: 0, err: '', out: 'user ann: roles api, operator, account acme\n' })
    t.match(await logIn(store, 'ann', 'long pw \n'), { roles: ['api', 'operator'] })
    t.equal(await logIn(store, 'ann', 'long pw '), null, 'one newline is taken off, no more')
    t.match(await run(['add', 'ann'], 'other pass\n'), { code: 1, err: /already/ })
    const roleless = await run(['add', '--account', 'acme', 'bob'], 'long pass')
    t.match(roleless, { code: 0, err: /warning: bob has no role/, out: /roles none/ })
    t.match(await logIn(store, 'bob', 'long pass'), { roles: [] }, 'no role by default')
    t.match(await run(['add', '--role', 'viewer', 'eve'], '8 letter'), { code: 0 })
  })

  await t.test('an invalid user is refused, and no user is created', async (t) => {
    t.match(await run(['add', 'x'], 'seven77\n'), { code: 1, err: /8 to 1024 characters/ })
    t.match(await run(['add', 'x'], 'x'.repeat(1025)), { code: 1, err: /8 to 1024 characters/ })
    for (const name of ['', 'a b', 'a\tb', 'x'.repeat(129)])
      t.match(await run(['add', name], 'long pass'), { code: 1, err: /a name has 1 to 128/ })
    t.match(await run(['add', 'x', '--account', 'a b'], 'long pass'), { code: 1 })
    t.match(await run(['add', 'x', '--role', 'root'], 'long pass'), {
      code: 64,
      err: /Roles are viewer, api, operator/,
    })
    t.match(await run(['add'], 'long pass'), { code: 64, err: /name/ })
    t.match(await run(['add', 'x', 'y'], 'long pass'), { code: 64 })
    t.match(await run(['add', 'x', '--password', 'long pass']), { code: 64 }, 'never of argv')
    t.equal(await logIn(store, 'x', 'long pass'), null)
  })

  await t.test('a terminal asks twice and echoes nothing', async (t) => {
    const typed = await run(['passwd', 'bob'], ['typed pass', 'typed pass'])
    t.match(typed, { code: 0, out: /^user bob has a new password/ })
    t.equal(typed.err, 'password: \nonce more: \n')
    t.ok(await logIn(store, 'bob', 'typed pass'))
    t.equal(await logIn(store, 'bob', 'long pass'), null)
    const differ = await run(['passwd', 'bob'], ['typed pass', 'typed pasd'])
    t.match(differ, { code: 1, err: /the two passwords differ/ })
    t.ok(await logIn(store, 'bob', 'typed pass'))
    t.match(await run(['passwd', 'bob'], 'short'), { code: 1, err: /8 to 1024/ })
  })

  await t.test('list, disable, enable, remove', async (t) => {
    t.match(await run(['disable', 'bob']), { code: 0, out: /^user bob is disabled/ })
    t.equal(await logIn(store, 'bob', 'typed pass'), null)
    const rows = (await run(['list'])).out.split('\n').map((line) => line.split(/ {2,}/))
    t.same(rows, [
      ['NAME', 'ROLES', 'ACCOUNT', 'STATE', 'LAST LOG-IN'],
      ['ann', 'api,operator', 'acme', 'enabled', '-'],
      ['bob', '-', 'acme', 'disabled', '-'],
      ['eve', 'viewer', '-', 'enabled', '-'],
      [''],
    ])
    t.same(JSON.parse((await run(['list', '--json'])).out)[1], {
      name: 'bob',
      roles: [],
      account: 'acme',
      state: 'disabled',
      last_login: null,
    })
    t.match(await run(['enable', 'bob']), { code: 0, out: 'user bob is enabled\n' })
    t.ok(await logIn(store, 'bob', 'typed pass'))
    t.match(await run(['remove', 'bob']), { code: 0, out: /^user bob is removed/ })
    for (const verb of ['passwd', 'disable', 'enable', 'remove'])
      t.match(await run([verb, 'bob'], 'long pass'), { code: 1, err: /there is no user bob/ })
  })

  await t.test('the last admin wants --force', async (t) => {
    const options = ['--role', 'operator', '--account', '*']
    await run(['add', 'admin', ...options], 'long pass')
    for (const verb of ['disable', 'remove'])
      t.match(await run([verb, 'admin']), { code: 1, err: /admin is the last .*--force/ })
    t.ok(await logIn(store, 'admin', 'long pass'))
    t.match(await run(['disable', 'admin', '--force']), { code: 0 })
  })
})
