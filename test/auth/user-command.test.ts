import { PassThrough, Readable } from 'node:stream'
import t from 'tap'
import { userCommand } from '../../admin/auth/user-command.ts'
import { logIn } from '../../admin/auth/users.ts'
import { openStore } from '../../admin/store/index.ts'

const log = { info() {}, warn() {}, error() {} }

t.test('user add: password from stdin, roles and account by option', async (t) => {
  const store = await openStore(`sqlite:${t.testdir()}/a.db`, { now: Date.now, log })
  t.teardown(() => store.close())
  const run = async (argv: string[], input: string) => {
    const stdout = new PassThrough()
    const stderr = new PassThrough()
    const stdin = Readable.from([Buffer.from(input)]) as unknown as NodeJS.ReadStream
    const code = await userCommand(argv, { store, stdin, stdout, stderr })
    return { code, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') }
  }
  const options = ['--role', 'api', '--role', 'operator', '--account', 'acme']
  const added = await run(['add', 'ann', ...options], 'pw \n\n')
  t.equal(added.code, 0)
  t.notMatch(added.out, /pw/)
  t.match(await logIn(store, 'ann', 'pw \n'), { roles: ['api', 'operator'], account: 'acme' })
  t.equal(await logIn(store, 'ann', 'pw '), null, 'one newline is taken off, no more')
  t.match(await run(['add', 'ann'], 'other\n'), { code: 1, err: /already/ })
  t.match(await run(['add', 'bob'], 'pw'), { code: 0 })
  t.match(await logIn(store, 'bob', 'pw'), { roles: [], account: '' }, 'no role by default')
  t.match(await run(['add', 'eve'], '\n'), { code: 1, err: /password/ })
  t.match(await run(['add', 'eve', '--role', 'root'], 'pw'), { code: 64, err: /no such role/ })
  t.match(await run(['add'], 'pw'), { code: 64 })
})
