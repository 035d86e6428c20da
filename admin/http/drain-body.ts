import type { IncomingMessage } from 'node:http'
import type { onSendAsyncHookHandler } from 'fastify'

/** Bytes and milliseconds that a refused body is read for. */
const maxBytes = 4 * 1024 * 1024
const maxMs = 1000

function drain(request: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, maxMs)
    let bytes = 0
    const done = () => {
      clearTimeout(timer)
      resolve()
    }
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxBytes) done()
    })
    request.once('end', done).once('close', done).resume()
  })
}

/**
 * A refusal that comes before the body does is answered behind it: a connection that is closed with bytes unread is
 * reset, and the answer is lost with it (RFC 9112 9.6).
 */
export const drainBody: onSendAsyncHookHandler = async ({ raw }, reply, payload) => {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = raw.headers
  const sent = length !== '0' || coding !== undefined
  if (sent && reply.statusCode >= 400 && !raw.complete && !raw.destroyed) await drain(raw)
  return payload
}
