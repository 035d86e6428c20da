/** Readiness for bid traffic does not depend on an external issuer (CONTRACT 1, 9). */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import t from 'tap'
import { newFolder, startBidweir } from '../../support/process.ts'
import { until } from '../../support/until.ts'

/** Requests without a time limit: a start that waits for the issuer never ends, on a slow machine as well. */
const unlimited = 'data:text/javascript,AbortSignal.timeout = () => new AbortController().signal'

t.test('an issuer that never answers does not delay the start', async (t) => {
  const asked = new Set<Socket>()
  const issuer = createServer((socket) => {
    asked.add(socket.on('error', () => {}))
    socket.resume()
  }).listen(0, '127.0.0.1')
  await once(issuer, 'listening')
  const { port } = issuer.address() as AddressInfo
  const yaml = `
proxy: {listen: "127.0.0.1:0"}
admin:
  listen: "127.0.0.1:0"
  auth: {issuer: "http://127.0.0.1:${port}/realms/x", audience: bidweir, clientId: console}
suppliers: []
`
  const bidweir = await startBidweir(yaml, newFolder(), ['--import', unlimited])
  t.teardown(async () => {
    await bidweir.stop('SIGKILL')
    for (const socket of asked) socket.destroy()
    issuer.close()
  })
  await until(() => asked.size > 0)
  t.equal((await fetch(`http://127.0.0.1:${bidweir.adminPort}/readyz`)).status, 200)
})
