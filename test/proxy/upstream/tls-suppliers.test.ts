/** Responses of https suppliers that are unusual, and permitted. */
import { setDefaultCACertificates } from 'node:tls'
import t from 'tap'
import { certificate } from '../../support/certificate.ts'
import { startProxy } from '../../support/proxy.ts'
import { post, raw, segment } from '../../support/raw.ts'
import { answerText, rawSupplier } from '../../support/supplier.ts'

const tls = certificate('127.0.0.1')
const skip = tls === null ? 'openssl not found' : false
if (tls !== null) setDefaultCACertificates([tls.cert])

const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
const uninvited = 'HTTP/1.1 100 Continue\r\n\r\n'

for (const [name, interim] of Object.entries({
  'an uninvited 100 Continue': uninvited,
  '103 Early Hints': hints,
  'several interim responses': uninvited + hints + uninvited,
}))
  t.test(`${name} is passed over`, { skip }, async (t) => {
    const bytes = Buffer.from(interim + answerText('200 OK', '"here"'))
    let cut = 0
    const supplier = await rawSupplier(async (socket) => {
      if (cut > 0) await segment(socket, bytes.subarray(0, cut))
      socket.write(bytes.subarray(cut))
    }, tls)
    const proxy = await startProxy({ acme: { endpoints: [supplier.url] } })
    t.teardown(() => Promise.all([proxy.close(), supplier.close()]))
    for (cut of [0, 1, 11, 20, interim.length, interim.length + 1, bytes.length - 1]) {
      const response = await raw(proxy.port, post('/bid/acme', '{}'))
      t.match(response, { status: 200, body: '"here"' }, `cut at ${cut}`)
      t.equal(response.headers['link'], undefined)
    }
    t.equal(supplier.connections, 1, 'the connection is kept')
  })
