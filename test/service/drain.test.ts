/** The end of the process: endless requests are cut, stores are always flushed, one Ctrl-C is one signal. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent, get, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { newFolder, startBidweir } from '../support/process.ts'
import { httpSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const hasScript = spawnSync('script', ['--version']).status === 0
const noTerminal = hasScript ? false : 'script (util-linux) not found'

const yaml = (url: string) => `
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
drain: {grace: 50ms, timeout: 10s}
suppliers: [{id: demo, endpoints: ["${url}"], passThrough: "${new URL(url).origin}"}]
`

// Each waits for a time limit of its own.
t.jobs = 4

t.test('a drain cuts what has no end, and flushes within its time', async (t) => {
  const endless = await httpSupplier((_request, response) => response.write('x'))
  // Five seconds of it are for the flush: enough on a busy machine.
  const bidweir = await startBidweir(yaml(endless.url).replace('timeout: 10s', 'timeout: 20s'))
  t.teardown(() => endless.close())
  const [passed, half] = [connect(bidweir.proxyPort), connect(bidweir.adminPort)]
  for (const socket of [passed, half]) socket.on('error', () => {})
  passed.write('GET /pass/demo/x HTTP/1.1\r\nHost: a\r\n\r\n')
  half.write('GET /heal')
  await new Promise((resolve) => passed.once('data', resolve))
  t.equal(await bidweir.stop('SIGTERM'), 0)
  t.notMatch(bidweir.stderr(), 'are cut off')
})

t.test(
  'in the grace each notice is the last one of its connection, and /metrics says so',
  async (t) => {
    const drain = 'drain: {grace: 1m, timeout: 2m}\nnotices: {listen: "127.0.0.1:0"}'
    const bidweir = await startBidweir(
      yaml('http://127.0.0.1:9/').replace('drain: {grace: 50ms, timeout: 10s}', drain),
    )
    t.teardown(() => bidweir.stop('SIGKILL'))
    t.match(bidweir.stdout(), /^win notices +http:\S+\/opd\/imp$/m)
    const notices = `http://127.0.0.1:${bidweir.noticesPort}/opd/imp`
    const admin = `http://127.0.0.1:${bidweir.adminPort}`
    const agent = new Agent({ keepAlive: true })
    t.teardown(() => agent.destroy())
    const ask = async (url: string) => {
      const [response] = (await once(get(url, { agent }), 'response')) as [IncomingMessage]
      response.resume()
      await once(response, 'end')
      return response
    }
    const draining = async () => {
      const text = await (await fetch(`${admin}/metrics`)).text()
      return /^bidweir_draining (\d)$/m.exec(text)?.[1]
    }
    t.equal(await draining(), '0')
    const urls = [`${notices}?bid_id=b&price=1`, `${admin}/opd/imp?bid_id=b&price=1`]
    for (const url of urls) t.equal((await ask(url)).headers.connection, 'keep-alive', url)
    bidweir.child.kill('SIGTERM')
    await until(async () => (await ask(`${admin}/readyz`)).statusCode === 503)
    for (const url of urls) t.equal((await ask(url)).headers.connection, 'close', url)
    t.equal(await draining(), '1')
  },
)

t.test('a start that waits for its database ends at a signal', async (t) => {
  const folder = newFolder()
  const file = join(folder, 'bidweir.yaml')
  const silent = createServer()
  t.teardown(() => silent.close())
  const port = await new Promise<number>((resolve) =>
    silent.listen(0, '127.0.0.1', () => resolve((silent.address() as AddressInfo).port)),
  )
  const key = Buffer.alloc(32, 1).toString('base64url')
  writeFileSync(
    file,
    `${yaml('http://127.0.0.1:9/')}opd: {keys: [{id: 1, secret: ${key}}]}
store: {database: "postgres://u:p@127.0.0.1:${port}/d"}
`,
  )
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const argv = ['-u', 'NODE_OPTIONS', process.execPath, 'main.ts', 'start', '--config', file]
    const child = spawn('env', argv, { cwd: root, stdio: 'ignore' })
    const exited = new Promise((resolve) => child.once('exit', resolve))
    await new Promise<void>((resolve) =>
      silent.once('connection', (socket) => {
        socket.on('error', () => {})
        resolve()
      }),
    )
    child.kill(signal)
    t.equal(await exited, 0, signal)
  }
})

t.test('Ctrl-C on npm start, which npm repeats, drains', { skip: noTerminal }, async (t) => {
  const folder = newFolder()
  const file = join(folder, 'bidweir.yaml')
  writeFileSync(
    file,
    `${yaml('http://127.0.0.1:9/')}store: {database: "sqlite:${folder}/data/b.db"}\n`,
  )
  // A terminal of its own, so that the signal reaches the whole group as a user's does.
  // The trap keeps the shell around it alive, whichever shell it is.
  const run = `trap : INT; npm start -- --config ${file}; echo "ended with $?"`
  const child = spawn('script', ['-qfc', run, '/dev/null'], { cwd: root })
  let seen = ''
  const ended = new Promise((resolve) => child.on('close', resolve))
  child.stdout.on('data', (chunk) => {
    const greeted = /^admin /m.test(seen)
    seen += chunk
    if (!greeted && /^admin /m.test(seen)) child.stdin.write('\x03')
  })
  await ended
  t.match(seen, /ended with 0/)
})
