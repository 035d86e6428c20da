import type { IncomingMessage } from 'node:http'
import type { onSendAsyncHookHandler } from 'fastify'

/** A body is discarded up to this size and for this time. */
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
 * Reads the rest of the body before an error is sent. If a connection is closed with bytes unread, it is reset and
 * the client may lose the response (RFC 9112 9.6).
 */
export const drainBody: onSendAsyncHookHandler = async ({ raw }, reply, payload) => {
  const { 'content-length': length = '0', 'transfer-encoding': coding } = raw.headers
  const sent = length !== '0' || coding !== undefined
  if (sent && reply.statusCode >= 400 && !raw.complete && !raw.destroyed) await drain(raw)
  return payload
}
