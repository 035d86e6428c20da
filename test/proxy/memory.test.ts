/** Memory of bodies: bounded, refused above the bound, released (CONTRACT 2, 3). */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import * as zlib from 'node:zlib'
import t from 'tap'
import { proxySchema } from '../../proxy/config.ts'
import { bidLogLimit, heldBytesLimit } from '../../proxy/memory-shares.ts'
import { idleEngine, sample, startProxy } from '../support/proxy.ts'
import { post, raw } from '../support/raw.ts'
import { answerText, rawSupplier } from '../support/supplier.ts'
import { callTo } from '../support/transport.ts'
import { until } from '../support/until.ts'

const MiB = 1024 ** 2

t.test('bodies, bid log and heap are a quarter of the memory each', (t) => {
  for (const [limit, bodies, bidLog] of [
    [64, 32, 16],
    [512, 128, 128],
    [1024, 256, 256],
    [2048, 512, 256],
    [65_536, 512, 256],
  ] as const) {
    t.equal(heldBytesLimit('auto', limit * MiB), bodies * MiB, `bodies of ${limit} MiB`)
    t.equal(bidLogLimit(limit * MiB), bidLog * MiB, `bid log of ${limit} MiB`)
  }
  t.equal(heldBytesLimit(7 * MiB, 64 * MiB), 7 * MiB)
  t.end()
})

t.test('maxHeldBytes is auto by default, and a reload changes it', async (t) => {
  const endpoints = ['http://127.0.0.1:9/']
  const proxy = await startProxy({ acme: { endpoints } })
  t.teardown(() => proxy.close())
  const limit = () => sample(proxy.registry, 'bidweir_held_bytes_limit')
  t.equal(await limit(), heldBytesLimit('auto'))
  proxy.proxy.configure(proxySchema.parse({ maxHeldBytes: '48MiB' }))
  t.equal(await limit(), 48 * MiB)
  t.throws(() => proxySchema.parse({ maxHeldBytes: 'much' }), /auto, or a size such as 256MiB/)
})

t.test('200 bodies of 1 MiB at a slow supplier: what is over the bound is refused', async (t) => {
  const count = 200
  const waiting: Socket[] = []
  const supplier = await rawSupplier((socket) => void waiting.push(socket))
  const proxy = await startProxy(
    {
      acme: { endpoints: [supplier.url], timeout: '60s', onFailure: 'status', maxInFlight: count },
    },
    { proxy: { maxHeldBytes: '16MiB', headTimeout: '60s' } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const held = () => sample(proxy.registry, 'bidweir_held_bytes')
  const inFlight = () => sample(proxy.registry, 'bidweir_requests_in_flight{ssp="acme"}')
  const refused = () =>
    sample(proxy.registry, 'bidweir_requests_total{ssp="acme",outcome="overload"}')
  const body = post('/bid/acme', Buffer.alloc(MiB, ' '))
  const statuses: Record<string, number> = {}
  const callers = Array.from({ length: count }, async () => {
    const socket = callTo(proxy.port)
    socket.on('error', () => {})
    socket.write(body)
    const [head] = await once(socket, 'data')
    const status = String(head).slice(9, 12)
    statuses[status] = (statuses[status] ?? 0) + 1
    socket.destroy()
  })
  let most = 0
  await until(async () => {
    most = Math.max(most, await held())
    return (await refused()) + waiting.length === count && (await inFlight()) === waiting.length
  })
  t.ok(waiting.length > 0 && waiting.length <= 16, `${waiting.length} are taken`)
  t.equal(await held(), waiting.length * MiB)
  // A piece of a body is read before it is refused.
  t.ok(most <= 17 * MiB, `${most} bytes at most`)
  for (const socket of waiting) socket.write(answerText('200 OK', '{}'))
  await Promise.all(callers)
  t.same(statuses, { 200: waiting.length, 503: count - waiting.length })
  await until(async () => (await held()) === 0)
  t.equal(await inFlight(), 0)
  t.equal((await raw(proxy.port, post('/bid/none', '{}'))).status, 404, 'it goes on')
})

t.test('answers are held within the bound as well: past it they pass unread', async (t) => {
  const long = `{"seatbid":[],"x":"${'y'.repeat(MiB)}"}`
  const packed = zlib.brotliCompressSync(long, {
    params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 },
  })
  const supplier = await rawSupplier((socket, request) => {
    if (request.includes('?br'))
      socket.write(
        `HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: ${packed.length}\r\n\r\n`,
      )
    socket.write(request.includes('?br') ? packed : answerText('200 OK', long))
  })
  const untouched: string[] = []
  let looked = 0
  const engine = idleEngine({
    readsResponses: () => true,
    countUnmodified: (_ssp, reason) => void untouched.push(reason),
    rewrite: ({ body }) => {
      looked++
      return { body, reason: null, removed: 0, left: 0, unreadable: false }
    },
  })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s' } },
    { engine, proxy: { maxHeldBytes: '512KiB' } },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).body, long)
  const still = await raw(proxy.port, post('/bid/acme?br', '{}'))
  t.ok(Buffer.from(still.body, 'latin1').equals(packed))
  t.same(untouched, ['too_large', 'too_large'])
  proxy.proxy.setDirectory(() => ({ inactiveSeats: new Set(['s']), allotment: undefined }), 1)
  for (const path of ['/bid/acme', '/bid/acme?br'])
    t.equal((await raw(proxy.port, post(path, '{}'))).headers['x-bidweir-reason'], 'unreadable')
  t.equal(looked, 0)
  await until(async () => (await sample(proxy.registry, 'bidweir_held_bytes')) === 0)
})
