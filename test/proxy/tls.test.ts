/** The tests of plain connections, over TLS: callers, the listener and suppliers speak it. */
import t from 'tap'
import { testCertificate } from '../support/transport.ts'

const subjects = [
  'admission/admission',
  'listen/attacks',
  'exchange/bid',
  'exchange/deadlines',
  'exchange/encodings',
  'upstream/endpoints',
  'exchange/faults',
  'exchange/eligible-responses',
  'listen/lanes',
  'memory',
  'exchange/request-bodies',
  'admission/overload',
  'listen/pipelined-connections',
  'exchange/pricing-batch',
  'listen/socket-reads',
  'upstream/shared-reads',
  'exchange/vectors',
  'wire/write-message',
]

const skip = testCertificate() === null ? 'openssl not found' : false

// They run once all of them are loaded.
t.test('the tests that follow are over TLS', { skip }, async () => {
  process.env['TEST_TRANSPORT'] = 'tls'
  for (const subject of subjects) await import(`./${subject}.test.ts`)
})
