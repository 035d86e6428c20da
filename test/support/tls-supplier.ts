/**
 * The worker of a test: a supplier over TLS that answers at once, in an event loop of its own. It posts its URL and certificate, and then, for
 * each message, what it counted.
 */
import { parentPort } from 'node:worker_threads'
import { answerText, rawSupplier } from './supplier.ts'
import { testCertificate } from './transport.ts'

const supplier = await rawSupplier((socket) => socket.write(answerText('200 OK', '{}')), 'tls')
parentPort!
  .on('message', () => {
    const { connections, requests } = supplier
    parentPort!.postMessage({ handshakes: connections, requests: requests.length })
  })
  .postMessage({ url: supplier.url, cert: testCertificate()?.cert })
