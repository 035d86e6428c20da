/**
 * The worker of a test: a supplier over TLS that answers at once, in an event loop of its own. It posts its URL, and then, for
 * each message, what it counted.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { answerText, rawSupplier } from './supplier.ts'

const supplier = await rawSupplier(
  (socket) => socket.write(answerText('200 OK', '{}')),
  workerData as { cert: string; key: string },
)
parentPort!
  .on('message', () => {
    const { connections, requests } = supplier
    parentPort!.postMessage({ handshakes: connections, requests: requests.length })
  })
  .postMessage(supplier.url)
