/** `/api/svc/debug/` and `bidweir debug`: on a real node with a worker process. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { debugFolder } from '../../../service/debug/debug-socket.ts'
import { Debugging } from '../../../service/debug/debugging.ts'
import { commandHere } from '../../support/command.ts'
import { command, newFolder, token } from '../../support/process.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'
import { startWorkers } from '../../support/workers.ts'

const supplier = await echoSupplier()
t.teardown(() => supplier.close())
process.env['SPIN'] = '600'
const folder = newFolder()
const node = await startWorkers({
  endpoint: supplier.url,
  suppliers: ['id: acme, callers: {headers: {x-key: k}}'],
  folder,
  preload: fileURLToPath(new URL('../../support/spin.ts', import.meta.url)),
})
t.teardown(() => node.stop())
const config = join(folder, 'bidweir.yaml')
const debug = (...words: string[]) => commandHere('debug', ...words, '--config', config)

interface Turn {
  process: number
  late_ms: number
  cpu_ms: number
  stack: string[] | null
}

t.test('what held the event loop is seen, in each process', async (t) => {
  const pids = [node.bidweir.child.pid!, ...node.workers()]
  for (const [index, pid] of pids.entries()) {
    const seen = async () => {
      const turns = (await (await node.api('/api/svc/debug/turns/')).json()) as Turn[]
      return turns.find(
        ({ process, stack }) =>
          process === index && stack?.some((frame) => frame.startsWith('spinHere (')),
      )
    }
    // The first turn may be one that another stack was asked for, a moment before. The next signal is sent when the process
    // has been held and reports again: several at once would hold it for seconds, and a worker would be replaced.
    const turns: Turn[] = []
    let polls = 0
    await until(async () => {
      if (polls++ % 10 === 0) process.kill(pid, 'SIGUSR2')
      turns.push(...[await seen()].filter((turn) => turn !== undefined))
      return turns.length > 0
    })
    const turn = turns[0]!
    t.ok(turn.late_ms >= 100)
    t.ok(turn.cpu_ms > 0)
    const frame = turn.stack!.find((line) => line.startsWith('spinHere ('))!
    t.match(frame, /^spinHere \(test\/support\/spin\.ts:\d+\)$/)
  }
  const { said, code } = await debug('turns')
  t.equal(code, 0)
  t.match(said, /process 1 late [\d.]+ ms, CPU [\d.]+ ms/)
  t.match(said, /\n {2}spinHere \(/)
})

t.test('the last refused requests say why, and nothing of their content', async (t) => {
  const bid = (init: RequestInit) =>
    fetch(`http://127.0.0.1:${node.bidweir.proxyPort}/bid/acme?uid=secret-1`, init)
  await bid({ method: 'PUT', headers: { connection: 'close' } })
  await bid({ method: 'POST', body: '{"secret-2": 1}', headers: { connection: 'close' } })
  const response = await node.api('/api/svc/debug/refused/')
  t.equal(response.status, 200)
  const text = await response.text()
  t.notMatch(text, /secret/)
  const rows = JSON.parse(text) as object[]
  t.match(
    rows.map((row) => ({ ...row })),
    [
      { ssp: 'acme', outcome: 'refused', reason: 'caller', status: 403, endpoint: null },
      { ssp: 'acme', outcome: 'refused', reason: 'method', status: 405, endpoint: null },
    ],
  )
  const { said } = await debug('refused', '--outcome', 'refused', '--ssp', 'acme')
  t.match(said, /process \d acme refused \(caller\) 403 after [\d.]+ ms\n/)
  t.same((await debug('refused', '--outcome', 'timeout')).said, '')
  const none = await node.api('/api/svc/debug/refused/?outcome=answer')
  t.equal(none.status, 400)
})

t.test('a CPU profile and a heap snapshot of each process, by API and command', async (t) => {
  for (const index of [0, 1]) {
    const profile = await node.api(`/api/svc/debug/profile/?seconds=1&process=${index}`, {
      method: 'POST',
    })
    t.equal(profile.status, 200)
    t.match(profile.headers.get('content-disposition'), /filename="bidweir-\d-.*\.cpuprofile"/)
    t.match(await profile.json(), { nodes: Array, samples: Array, startTime: Number })
    const file = join(folder, `heap-${index}`)
    const heap = await debug('heap', '--process', String(index), '--output', file)
    t.match(heap, { code: 0, said: `${file}\n` })
    t.match(JSON.parse(readFileSync(file, 'utf8')), { snapshot: { meta: Object } })
    t.equal(statSync(file).mode & 0o777, 0o600, 'a heap has keys')
  }
  t.same(readdirSync(debugFolder(join(folder, 'data'))), ['socket'], 'nothing is left')
  t.equal(node.workers().length, 1, 'a worker is not replaced meanwhile')
  t.match(await debug('profile', '--process', '2'), {
    code: 1,
    said: 'bidweir: No such process\n',
  })
  const long = await debug('profile', '--seconds', '61')
  t.match(long, { code: 1, said: /seconds/ })
})

t.test('a heap snapshot that does not fit on the disk leaves no file', async (t) => {
  const file = join(folder, 'heap-cut')
  const main = fileURLToPath(new URL('../../../main.ts', import.meta.url))
  const words = ['debug', 'heap', '--output', file, '--config', config]
  // A limit of the size of files ends the same call of the system as a full disk does.
  const limited = ['-c', 'ulimit -f 8 && exec "$@"', 'sh', process.execPath, main, ...words]
  const child = spawn('sh', limited, { stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  const [code] = (await once(child, 'close')) as [number]
  t.match(said, `bidweir: ${file} cannot be written: EFBIG`)
  t.equal(code, 1)
  t.notOk(existsSync(file))
  writeFileSync(file, 'kept')
  t.match(await debug('heap', '--output', file), { code: 1, said: /EEXIST/ })
  t.equal(readFileSync(file, 'utf8'), 'kept', 'nor replaces one')
})

t.test('the level of the log changes at once, in all processes, and by a reload', async (t) => {
  const log = () => node.bidweir.stderr()
  const reloads = async (level: string) => {
    const yaml = readFileSync(config, 'utf8').replace(
      /log: \{level: \w+\}/,
      `log: {level: ${level}}`,
    )
    writeFileSync(config, yaml)
    const taken = async () =>
      (await node.metrics()).get('bidweir_config_reloads_total{result="taken"}')!
    const before = await taken()
    process.kill(node.bidweir.child.pid!, 'SIGHUP')
    await until(async () => (await taken()) > before)
  }
  await reloads('error')
  t.equal((await debug('log')).said, 'error\n')
  t.notMatch(log(), 'configuration reloaded')
  const { said } = await debug('log', 'info', '--minutes', '2')
  t.match(said, /^info until \d{4}-.*Z, then error\n$/)
  await reloads('warn')
  await until(() => /configuration reloaded/.test(log()))
  t.match(await (await node.api('/api/svc/debug/')).json(), {
    processes: [0, 1],
    log: { level: 'info', configured: 'warn', until: String },
  })
  t.equal((await node.metrics()).get('bidweir_restart_needed'), 0)
  t.notMatch(log(), 'restart needed')
})

t.test('only an operator of all accounts may, and every change is audited', async (t) => {
  for (const [name, role, account, status] of [
    ['viewer', 'viewer', '*', 403],
    ['other', 'operator', 'other', 403],
    ['operator', 'operator', '*', 200],
  ] as const) {
    const words = ['user', 'add', name, '--role', role, '--account', account, '--config', config]
    await command(words, { stdin: 'a long password\n' })
    const access = await token(node.bidweir, name, 'a long password')
    const response = await fetch(`${node.admin}/api/svc/debug/turns/`, {
      headers: { authorization: `Bearer ${access}` },
    })
    t.equal(response.status, status, name)
  }
  t.equal((await fetch(`${node.admin}/api/svc/debug/turns/`)).status, 401)
  const entries = (await (await node.api('/api/svc/audit/')).json()) as Record<string, unknown>[]
  const actions = entries.map(({ action, who }) => `${who} ${action}`)
  t.ok(actions.includes('bidweir debug debug_log'))
  t.ok(actions.includes('bidweir debug debug_heap'))
  t.ok(actions.includes('admin debug_profile'))
  t.equal(statSync(debugFolder(join(folder, 'data'))).mode & 0o777, 0o700)
})

t.test(
  'a worker that hangs is named in the log with what it runs, before it is replaced',
  async (t) => {
    const held = await startWorkers({
      endpoint: supplier.url,
      preload: fileURLToPath(new URL('../../support/hang.ts', import.meta.url)),
    })
    t.teardown(() => held.stop())
    process.kill(held.workers()[0]!, 'SIGUSR2')
    await until(() => /a worker is replaced/.test(held.bidweir.stderr()))
    const line = held.bidweir
      .stderr()
      .split('\n')
      .find((line) => line.includes('loop is held'))!
    t.match(JSON.parse(line), { level: 50, worker: 1, msg: 'the event loop is held' })
    t.match(JSON.parse(line).stack.join(), /hangHere \(test\/support\/hang\.ts:\d+\)/)
  },
)

t.test('a process that has served its last bid, and waits for others, is not held', async (t) => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  t.teardown(() => silent.close())
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const ending = await startWorkers({
    endpoint: supplier.url,
    more: `tracing: {endpoint: "http://127.0.0.1:${port}/", ratio: 1}`,
  })
  await ending.bid({ id: 'b1' })
  // Half a request, and a collector that does not respond: two seconds each.
  const half = connect(ending.bidweir.adminPort, '127.0.0.1').on('error', () => {})
  t.teardown(() => half.destroy())
  await once(half, 'connect')
  half.write('GET / HTTP/1.1\r\n')
  t.equal(await ending.stop(), 0)
  t.notMatch(ending.bidweir.stderr(), /loop is held/)
})

t.test('the configured level is back by itself', async (t) => {
  const log = { level: 'warn' as const, info() {}, warn() {}, error() {} }
  const tools = { lateTurns: () => [], refused: () => [], write: async () => {} }
  const debugging = new Debugging({ log, tools: tools, pool: null, stateDir: folder })
  debugging.setLevel('debug', 20)
  t.equal(log.level, 'debug')
  debugging.configure('error')
  t.equal(log.level, 'debug', 'a reload does not end it')
  await until(() => debugging.level.until === null)
  t.equal(log.level, 'error')
})

t.test('without a service the command says where it looked', async (t) => {
  const empty = newFolder()
  const file = join(empty, 'bidweir.yaml')
  writeFileSync(file, 'stateDir: state\n')
  const { code, said } = await commandHere('debug', 'turns', '--config', file)
  t.equal(code, 1)
  t.match(said, `no service listens on ${join(empty, 'state/debug/socket')}`)
  t.notOk(existsSync(join(empty, 'state')))
})
