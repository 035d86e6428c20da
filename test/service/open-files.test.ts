/** A node that may open no more files: its own connections fail, no endpoint counts as failing, and it goes on by itself. */
import { execFileSync, spawnSync } from 'node:child_process'
import t from 'tap'
import { startBidweir } from '../support/process.ts'
import { keptOpen, post } from '../support/raw.ts'
import { httpSupplier } from '../support/supplier.ts'
import { timePasses } from '../support/until.ts'

const skip = spawnSync('prlimit', ['--version']).status === 0 ? false : 'prlimit not found'

t.test('file descriptors that are used up are no fault of a supplier', { skip }, async (t) => {
  // Each request needs a connection of its own.
  const supplier = await httpSupplier((_request, response) =>
    response.writeHead(200, { connection: 'close' }).end('{"id": "r"}'),
  )
  const node = await startBidweir(`
proxy: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
log: {level: warn}
suppliers:
  - id: acme
    endpoints: ["${supplier.url}/one", "${supplier.url}/two"]
    timeout: 20s
    healthCheck: {interval: 500ms, timeout: 250ms, unhealthyAfter: 3, healthyAfter: 1}
`)
  const caller = keptOpen(node.proxyPort)
  const bid = post('/bid/acme', '{"id": "r", "imp": [{"id": "1"}]}')
  t.teardown(async () => {
    caller.end()
    await node.stop()
    await supplier.close()
  })
  const mayOpen = (files: string) =>
    execFileSync('prlimit', ['--pid', String(node.child.pid), `--nofile=${files}:`])

  t.equal((await caller.ask(bid)).status, 200)
  mayOpen('10')
  await caller.ask(bid)
  const before = supplier.connections
  for (let n = 0; n < 20; n++) {
    const { status, headers } = await caller.ask(bid)
    t.match({ status, headers }, { status: 204, headers: { 'x-bidweir-reason': 'upstream_error' } })
  }
  await timePasses(3000, 'no health check is sent')
  t.equal(supplier.connections, before, 'neither a bid nor a health check reached it')
  mayOpen('4096')
  for (let n = 0; n < 20; n++) t.equal((await caller.ask(bid)).status, 200)

  const paths = new Set(supplier.requests.slice(-20).map(({ url }) => url))
  t.same([...paths].sort(), ['/openrtb/one', '/openrtb/two'], 'both endpoints are in use at once')
  const lines = node.stderr()
  t.equal(lines.split('no file descriptors or ports').length, 2, 'it is logged once')
  t.notMatch(lines, 'an endpoint is')
})
