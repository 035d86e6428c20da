/** One process for each state folder and each SQLite file: a second start says which process has it (CONTRACT 1). */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { InUseError, lockState } from '../../service/state-lock.ts'
import { runHere } from '../support/cli.ts'
import { type Bidweir, newFolder, runBidweir, startBidweir } from '../support/process.ts'

const yaml = `
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
drain: {grace: 0ms, timeout: 10s}
`

async function running(t: Test) {
  const bidweir = await startBidweir(yaml)
  t.teardown(() => bidweir.stop('SIGKILL'))
  const state = join(bidweir.folder, 'data')
  return { bidweir, folder: bidweir.folder, state, pid: bidweir.child.pid! }
}

const port0 = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']

/** The exit code and the message of a start that is refused; one that is not is ended. */
async function refusal(start: Promise<Bidweir>): Promise<string> {
  const started = await start.catch((error: Error) => error.message)
  if (typeof started === 'string') return started
  await started.stop('SIGKILL')
  return 'it was not refused'
}

t.test('a process that runs', async (t) => {
  const { bidweir, folder, state, pid } = await running(t)
  const { host, since } = JSON.parse(readFileSync(join(state, 'lock.json'), 'utf8'))
  const holder = `process ${pid} on ${host} since ${since}`

  t.test('a second start is refused and names the folder and its process', async (t) => {
    const argv = ['start', '--config', join(folder, 'bidweir.yaml')]
    const second = await refusal(runBidweir(argv, folder))
    t.match(
      second,
      `it exited with 75: bidweir: the service does not start: the state folder ${state} `,
    )
    t.match(second, ` is in use by process ${pid} on `)
    t.match(second, / since \d{4}-\d\d-\d\dT\S+Z; .*--listen .*--admin .*stateDir/)
  })

  t.test('so is the demo, which says what it needs; with that it runs', async (t) => {
    const demo = await refusal(runBidweir(['demo', ...port0], folder))
    t.match(demo, /^it exited with 75: /)
    t.match(demo, `${state} is in use by process ${pid} on `)
    t.match(demo, /--state DIR, --listen HOST:PORT and --admin HOST:PORT/)
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    t.teardown(() => taken.close())
    const { port } = taken.address() as { port: number }
    const options = ['--state', 'own', '--listen', '127.0.0.1:0', '--admin', `127.0.0.1:${port}`]
    const other = await refusal(runBidweir(['demo', ...options], folder))
    t.match(other, /^it exited with 1: /, 'its state is its own, its address is not')
    t.match(other, `EADDRINUSE: address already in use 127.0.0.1:${port}`)
    t.match(other, /stop the other process, or .*--admin HOST:PORT:\n {2}npm run demo -- --state /)
  })

  t.test('a database file is refused by another path from another state folder', async (t) => {
    const folder = newFolder()
    mkdirSync(join(folder, 'mine'))
    symlinkSync(join(state, 'bidweir.db'), join(folder, 'mine', 'link.db'))
    t.throws(() => lockState(join(folder, 'data'), `sqlite:${join(folder, 'mine', 'link.db')}`), {
      name: 'InUseError',
      message: new RegExp(
        `^the database file ${state}/bidweir.db is in use by process ${pid} on ${host} since `,
      ),
    })
  })

  t.test('with PostgreSQL the state folder has one process too', async (t) => {
    t.throws(
      () => lockState(state, 'postgres://127.0.0.1:1/x'),
      new InUseError(`the state folder ${state} is in use by ${holder}`),
    )
  })

  t.test('a state folder that cannot be made is named', async (t) => {
    const file = join(newFolder(), 'taken')
    writeFileSync(file, '')
    t.throws(() => lockState(file, 'postgres://127.0.0.1:1/x'), {
      message: `the state folder ${file} cannot be made: a file has this name`,
    })
  })

  t.test('the lock ends with its process, and holds up no other command', async (t) => {
    const argv = ['user', 'add', 'ann', '--config', join(folder, 'bidweir.yaml')]
    const added = await runHere(argv, 'long enough\n')
    t.match(added, { code: 0 }, added.stderr)
    await bidweir.stop('SIGKILL')
    const again = await startBidweir(yaml, folder)
    t.equal(await again.stop(), 0)
  })
})
