/** Connections to https suppliers are kept and used again as those to plain ones are (CONTRACT 3). */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import t from 'tap'
import { startProxy } from '../../support/proxy.ts'
import { keptOpen, post } from '../../support/raw.ts'
import { testCertificate } from '../../support/transport.ts'

const skip = testCertificate() === null ? 'openssl not found' : false

for (const lane of ['fast', 'general'] as const)
  t.test(
    `${lane}: 3,000 bids of 16 callers need as many handshakes as connections, although the supplier answers at once`,
    { skip },
    async (t) => {
      const worker = new Worker(new URL('../../support/tls-supplier.ts', import.meta.url))
      const [{ url, cert }] = await once(worker, 'message')
      const proxy = await startProxy({ acme: { endpoints: [url], tls: { ca: cert } } }, { lane })
      const callers = Array.from({ length: 16 }, () => keptOpen(proxy.port))
      t.teardown(async () => {
        for (const { end } of callers) end()
        await proxy.close()
        await worker.terminate()
      })
      const request = post('/bid/acme', '{}')
      const statuses = new Map<number, number>()
      let left = 3000
      const bids = callers.map(async ({ ask }) => {
        while (left-- > 0) {
          const { status } = await ask(request)
          statuses.set(status, (statuses.get(status) ?? 0) + 1)
        }
      })
      await Promise.all(bids)
      t.strictSame([...statuses], [[200, 3000]])
      worker.postMessage('count')
      const [{ handshakes, requests }] = await once(worker, 'message')
      t.equal(requests, 3000)
      t.ok(handshakes <= 2 * callers.length, `${handshakes} handshakes`)
    },
  )
