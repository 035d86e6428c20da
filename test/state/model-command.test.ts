/** `bidweir model`: against a running keeper, against none, and with wrong arguments. */
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { runCommand } from '../../commands.ts'
import { type ModelArgs, modelCommand } from '../../model-command.ts'
import { createKeeper } from '../../opd/state/keeper.ts'
import { command, newFolder } from '../support/process.ts'
import { until } from '../support/until.ts'

const log = { info() {}, warn() {}, error() {} }
const keeperIn = (dir: string) =>
  createKeeper({ dir, attributionWindow: 1000, now: Date.now, log, commandsEvery: 10 })

const nowhere = { write: () => true }
const quiet = { stdin: process.stdin, stdout: nowhere, stderr: nowhere }

async function model(dir: string, args: ModelArgs, wait = 5000) {
  let [out, err] = ['', '']
  const code = await modelCommand(args, {
    dir,
    suppliers: new Set(['acme']),
    stdout: { write: (text) => (out += text) },
    stderr: { write: (text) => (err += text) },
    wait,
  })
  return { code, out, err }
}

t.test('a running service does what it is told, and says so', async (t) => {
  const dir = newFolder()
  const keeper = keeperIn(dir)
  t.teardown(() => keeper.close())
  await keeper.save()
  await keeper.save()
  t.match(await model(dir, { verb: 'freeze' }), {
    code: 0,
    out: 'frozen: decides, does not learn\n',
  })
  t.equal(keeper.of('margin').isFrozen, true)
  t.match(await model(dir, { verb: 'list' }), {
    code: 0,
    out: /revenue-2 .* newest\nrevenue-1 .*\nfrozen/s,
  })
  t.match(await model(dir, { verb: 'unfreeze' }), { code: 0, out: 'learning\n' })
  t.match(await model(dir, { verb: 'rollback', id: 'margin-1' }), {
    out: 'rolled back to margin-1\n',
  })
  t.equal(keeper.version('margin'), 3)
  t.match(await model(dir, { verb: 'reset', supplier: 'acme' }), { out: 'acme is forgotten\n' })
  const listed = await model(dir, { verb: 'list', json: true })
  const { snapshots, ...state } = JSON.parse(listed.out)
  t.match(state, {
    frozen: false,
    rolled_back: { revenue: null, margin: /^20/ },
    resets: { acme: /^20/ },
  })
  t.equal(snapshots.length, 5)
  t.same(readdirSync(join(dir, 'commands')), [], 'nothing is left behind')
})

t.test('what is wrong is said before the service is asked', async (t) => {
  const dir = newFolder()
  t.match(await model(dir, { verb: 'rollback', id: 'revenue-1' }), {
    code: 1,
    err: /no snapshot revenue-1/,
  })
  t.match(await model(dir, { verb: 'rollback' }), { code: 1, err: /no earlier snapshot/ })
  t.match(await model(dir, { verb: 'reset', supplier: 'nobody' }), {
    code: 1,
    err: /no supplier nobody/,
  })
  t.match(await model(dir, { verb: 'list' }), { code: 0, out: 'learning\n' })
  for (const argv of [
    [],
    ['nonsense'],
    ['freeze', 'x'],
    ['rollback', 'a', 'b'],
    ['reset'],
    ['freeze', '--supplier', 'acme'],
    ['freeze', '--format', 'json'],
    ['list', '--format', 'xml'],
    ['list', '--nonsense'],
  ])
    t.equal(await runCommand(['model', ...argv], quiet), 64, argv.join(' '))
})

t.test(
  'without a service the command waits for the start; what is no command is refused',
  async (t) => {
    const dir = newFolder()
    t.match(await model(dir, { verb: 'freeze' }, 60), { code: 0, out: /at the next start/ })
    const commands = join(dir, 'commands')
    const wrong = '0000000000000-00000000-0000-0000-0000-000000000000.json'
    writeFileSync(join(commands, wrong), '{"verb":"toString"}')
    writeFileSync(join(commands, 'stray.txt'), 'x')
    const keeper = keeperIn(dir)
    t.teardown(() => keeper.close())
    await until(() => keeper.of('revenue').isFrozen)
    while (readdirSync(commands).filter((file) => file.endsWith('.json')).length > 0)
      await new Promise((resolve) => setTimeout(resolve, 5))
    t.ok(readdirSync(commands).includes(`${wrong}.done`))
  },
)

t.test('the command line', async (t) => {
  const folder = newFolder()
  const nowhere = await command(['model', 'list'], { cwd: folder })
  t.match(nowhere, { code: 1, stderr: /no models in .*data.models: run it where the service runs/ })
  t.same(readdirSync(folder), [], 'and nothing is made there')
  t.match(await command(['model', 'nonsense'], { cwd: folder }), { code: 64 })
  t.match(await command(['model', 'list', '--config', 'missing.yaml'], { cwd: folder }), {
    code: 78,
  })
})
