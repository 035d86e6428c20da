/** All upstream connections read into one buffer: a response that waits is not overwritten by the next one. */
import { gzipSync } from 'node:zlib'
import t from 'tap'
import { testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'
import { startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'

const macro = 'svc_opd=${SVC_OPD_CONTEXT}'
/** The same length for each `n`; its bid is of an imp that no request has, so that it is left as it is. */
const responseOf = (n: number) =>
  `{"seatbid":[{"bid":[{"id":"${String(n).padStart(6, '0')}","impid":"none","price":1,"adm":"${macro}"}]}]}`
/** The decoded request is longer than the part that is decoded at once, so that the response waits for the rest. */
const request = gzipSync(
  JSON.stringify({ imp: [{ id: '1' }], pad: Array.from({ length: 20_000 }, (_, n) => n) }),
)

t.test('responses that wait for their requests keep their bytes', async (t) => {
  let n = 0
  const supplier = await rawSupplier((socket) => {
    const body = responseOf(n++)
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
  })
  const { engine } = testEngine({ integrations: [integration('acme')] })
  const proxy = await startProxy(
    { acme: { endpoints: [supplier.url], timeout: '20s' } },
    { engine },
  )
  t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
  const message = post('/bid/acme', request, 'Content-Encoding: gzip\r\n')
  const answers = await Promise.all(Array.from({ length: 24 }, () => raw(proxy.port, message)))
  t.strictSame(
    answers.map(({ body }) => body).sort(),
    Array.from({ length: 24 }, (_, number) => responseOf(number)).sort(),
  )
})
