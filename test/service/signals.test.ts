/** Signals to a running service (CONTRACT 1, 2): one drains, a second exits, SIGHUP reloads the file. */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Bidweir, newFolder, runBidweir, startBidweir } from '../support/process.ts'
import { post, raw } from '../support/raw.ts'
import { httpSupplier } from '../support/supplier.ts'
import { until } from '../support/until.ts'

/** Longer than any test may take: what does not wait for it ends before the runner does. */
const forever = '1h'

async function started(t: Test, drain: { grace: string; timeout: string }, endpoint?: string) {
  const supplier = await httpSupplier((_request, response) => response.end('{}'))
  const bidweir = await startBidweir(`
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
drain: {grace: ${drain.grace}, timeout: ${drain.timeout}}
suppliers: [{id: acme, endpoints: ["${endpoint ?? supplier.url}"], timeout: 50s}]
`)
  t.teardown(async () => {
    await bidweir.stop('SIGKILL')
    await supplier.close()
  })
  return bidweir
}

const drains = (bidweir: Bidweir) =>
  until(async () => (await fetch(`http://127.0.0.1:${bidweir.adminPort}/readyz`)).status === 503)

// Each waits for time limits of its own.
t.jobs = 3

t.test('SIGHUP reads the file again, as often as it comes; SIGTERM drains', async (t) => {
  const bidweir = await started(t, { grace: '3s', timeout: '20s' })
  const taken = async () => {
    const metrics = await (await fetch(`http://127.0.0.1:${bidweir.adminPort}/metrics`)).text()
    return Number(/^bidweir_config_reloads_total\{result="taken"\} (\d+)$/m.exec(metrics)?.[1] ?? 0)
  }
  for (const times of [1, 2]) {
    bidweir.child.kill('SIGHUP')
    await until(async () => (await taken()) === times)
  }
  t.equal(bidweir.stderr().split('configuration reloaded').length - 1, 2)

  // In the grace each answer says Connection: close; after it nobody gets in.
  const kept = connect(bidweir.proxyPort, '127.0.0.1')
  const before = new Promise<string>((resolve) => kept.once('data', (text) => resolve(`${text}`)))
  kept.write(post('/bid/acme', '{}'))
  t.notMatch(await before, /Connection: close/i)
  bidweir.child.kill('SIGTERM')
  await drains(bidweir)
  const last = new Promise<string>((resolve) => kept.once('data', (text) => resolve(`${text}`)))
  const closed = new Promise((resolve) => kept.once('close', resolve))
  kept.write(post('/bid/acme', '{}'))
  t.match(await last, /^HTTP\/1\.1 200 [\s\S]*Connection: close/i)
  await closed
  const fresh = await raw(bidweir.proxyPort, post('/bid/acme', '{}'), () => false)
  t.match(fresh.head, /^HTTP\/1\.1 200 [\s\S]*Connection: close/i, 'new connections, too')
  t.ok(fresh.closed)
  t.equal(await bidweir.exited, 0)
  t.equal((await raw(bidweir.proxyPort, post('/bid/acme', '{}'), () => false)).bytes, '')
})

t.test('drain.timeout is the end, whatever the grace', async (t) => {
  const bidweir = await started(t, { grace: forever, timeout: '1s' })
  t.equal(await bidweir.stop('SIGTERM'), 0)
})

t.test('SIGHUP in the drain ends nothing; a second signal, SIGTERM, exits at once', async (t) => {
  const arrived = Promise.withResolvers<void>()
  let finish = () => {}
  const supplier = await httpSupplier((_request, response) => {
    finish = () => response.end('{}')
    arrived.resolve()
  })
  t.teardown(() => supplier.close())
  const bidweir = await started(t, { grace: forever, timeout: forever }, supplier.url)
  const answer = raw(bidweir.proxyPort, post('/bid/acme', '{}'), () => false)
  await arrived.promise
  bidweir.child.kill('SIGTERM')
  await drains(bidweir)
  bidweir.child.kill('SIGHUP')
  await drains(bidweir)
  finish()
  t.match((await answer).head, /^HTTP\/1\.1 200 /, 'the request in flight is answered')
  t.equal(await bidweir.stop('SIGTERM'), 1)
})

t.test('a second signal, SIGINT, exits at once', async (t) => {
  const bidweir = await started(t, { grace: forever, timeout: forever })
  bidweir.child.kill('SIGTERM')
  await drains(bidweir)
  t.equal(await bidweir.stop('SIGINT'), 1)
})

t.test('without a file SIGHUP, a closed terminal, ends the service as SIGINT does', async (t) => {
  const addresses = ['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  const bidweir = await runBidweir(['demo', ...addresses], newFolder())
  t.teardown(() => bidweir.stop('SIGKILL'))
  t.equal(await bidweir.stop('SIGHUP'), 0)
})

t.test(
  'SIGHUP before the command is loaded ends no start with a file; SIGINT drains without grace',
  async (t) => {
    const folder = newFolder()
    const signal = join(folder, 'signal.mjs')
    writeFileSync(
      signal,
      `import { registerHooks } from 'node:module'
registerHooks({
  load(url, context, next) {
    if (url.endsWith('/service/cli/index.ts')) process.kill(process.pid, 'SIGHUP')
    return next(url, context)
  },
})`,
    )
    const yaml = `
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
drain: {grace: ${forever}, timeout: ${forever}}
suppliers: []
`
    const bidweir = await startBidweir(yaml, folder, ['--import', signal])
    t.teardown(() => bidweir.stop('SIGKILL'))
    t.equal((await fetch(`http://127.0.0.1:${bidweir.adminPort}/readyz`)).status, 200)
    t.equal(await bidweir.stop('SIGINT'), 0)
  },
)
