/** The command line itself: help, version, faults of usage, and what a command loads (CONTRACT 1). */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runHere } from '../../support/cli.ts'
import { command, newFolder, runBidweir } from '../../support/process.ts'

const root = new URL('../../../', import.meta.url)
const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8'))
const commands = ['start', 'demo', 'check', 'schema', 'key', 'replay', 'user', 'model']
const verbs = ['key new', 'user add', 'user list', 'user remove', 'model rollback', 'model reset']

t.test('without a command: usage on stderr, 64', async (t) => {
  const { code, stdout, stderr } = await command([])
  t.match({ code, stdout }, { code: 64, stdout: '' })
  for (const name of commands) t.match(stderr, new RegExp(`^  ${name}\\b.* {2,}\\w`, 'm'))
})

t.test('version and help are answers: stdout, 0', async (t) => {
  for (const flag of ['--version', '-V'])
    t.same(await command([flag]), { code: 0, stdout: `${version}\n`, stderr: '' })
  t.same(await runHere(['-h']), await runHere(['--help']))
  const help = await runHere(['--help'])
  t.match(help, { code: 0, stdout: /^Usage: bidweir /, stderr: '' })
  for (const name of commands) t.match(help.stdout, new RegExp(`^  ${name}\\b`, 'm'))
  for (const name of [...commands, ...verbs]) {
    const { code, stdout, stderr } = await runHere([...name.split(' '), '--help'])
    t.match({ code, stderr }, { code: 0, stderr: '' }, name)
    t.match(stdout, new RegExp(`^Usage: bidweir ${name} .*\\n\\n\\w.+`), 'with its purpose')
    t.match(stdout, /^ {2}-h, --help /m)
  }
})

t.test('wrong usage is 64, said on stderr', async (t) => {
  const cases: [string, RegExp][] = [
    ['strat', /unknown command 'strat'\n\(Did you mean start\?\)/],
    ['user ad ann', /unknown command 'ad'\n\(Did you mean add\?\)/],
    ['zzzzzz', /^bidweir: unknown command 'zzzzzz'\n$/],
    ['constructor', /unknown command/],
    ['start --confg x', /unknown option '--confg'\n\(Did you mean --config\?\)/],
    ['start --config', /argument missing/],
    ['start x', /too many arguments/],
    [
      'start --config x --listen 127.0.0.1:0',
      /'--listen <host:port>' cannot be used with .*--config/,
    ],
    ['check', /'--config <file>' not specified/],
    ['key', /Usage: bidweir key/],
    ['key new x', /too many arguments/],
    ['user', /Usage: bidweir user/],
    ['demo --listen', /argument missing/],
  ]
  for (const [argv, stderr] of cases)
    t.match(await runHere(argv.split(' ')), { code: 64, stdout: '', stderr }, argv)
  t.match(await command(['strat']), { code: 64, stderr: /Did you mean start/ })
})

t.test('a start without a file listens where the options say', async (t) => {
  const addresses = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const bidweir = await runBidweir(['start', ...addresses], newFolder())
  t.teardown(() => bidweir.stop('SIGINT'))
  t.match(bidweir.stdout(), /^bid traffic +http:\/\/127\.0\.0\.1:\d+\/bid\/demo$/m)
  t.equal((await fetch(`http://127.0.0.1:${bidweir.adminPort}/readyz`)).status, 200)
})

t.test('a command loads what it needs', async (t) => {
  const loaded = fileURLToPath(new URL('test/support/loaded-packages.ts', root))
  const packages = async (argv: string[]) => {
    const { code, stderr } = await command(argv, {
      env: { NODE_OPTIONS: `--import=${loaded}`, NODE_V8_COVERAGE: '' },
    })
    t.equal(code, 0, argv.join(' '))
    // The test runner loads packages of its own into each process that it starts.
    const runners =
      /^(@tapjs\/.*|fromentries|node-options-to-argv|pirates|process-on-spawn|signal-exit|uuid)$/
    return stderr
      .trim()
      .split(' ')
      .filter((name) => !runners.test(name))
  }
  t.same(await packages(['key', 'new']), ['commander'])
  t.same(await packages(['user', 'add', '--help']), ['commander'])
  const all = await packages(['user', 'list'])
  for (const name of ['kysely', 'zod']) t.ok(all.includes(name), `the list has ${name}`)
  t.notOk(all.includes('fastify'))
})

t.test('a command whose output cannot be written fails, unless its reader has left', async (t) => {
  const main = fileURLToPath(new URL('main.ts', root))
  const inShell = (line: string) =>
    spawnSync('sh', ['-c', `"$0" "$1" schema ${line}`, process.execPath, main], {
      encoding: 'utf8',
    })
  const full = inShell('> /dev/full')
  t.equal(full.status, 1)
  t.match(full.stderr, /^bidweir: stdout cannot be written: ENOSPC/)
  const left = inShell('| true')
  t.match(left, { status: 0, stderr: '' })
})
