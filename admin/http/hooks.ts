/**
 * Hooks of the admin listener that reject a request before its body is read, or read the rest of a rejected one. They
 * throw: after a hook that replies, fastify continues with the handler if the client has disconnected meanwhile.
 */
import type { IncomingMessage } from 'node:http'
import type { onRequestAsyncHookHandler, onSendAsyncHookHandler } from 'fastify'
import { occurrences } from '../../opd/base/pipelining.ts'
import { Problem } from './problem.ts'

/** Encoded bodies are not supported (RFC 9110 15.5.16). */
export const rejectEncodedBody: onRequestAsyncHookHandler = async ({ headers }, reply) => {
  if (/^(identity)?$/i.test(headers['content-encoding'] ?? '')) return
  reply.header('accept-encoding', 'identity')
  throw new Problem('unsupported_encoding')
}

/**
 * Requires exactly one Host (RFC 9112 3.2) and at most one Authorization (RFC 9110 5.3, 11.6.2). Node uses the first
 * of two values, and a proxy in front of this listener might use the other.
 */
export const singularFields: onRequestAsyncHookHandler = async ({ raw }, reply) => {
  const { rawHeaders, httpVersion } = raw
  const hosts = occurrences(rawHeaders, 'host')
  const oneHost = hosts === 1 || (hosts === 0 && httpVersion === '1.0')
  if (oneHost && occurrences(rawHeaders, 'authorization') <= 1) return
  reply.header('connection', 'close')
  const title = oneHost ? 'At most one Authorization is allowed' : 'Exactly one Host is required'
  throw new Problem('malformed', { title })
}

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
