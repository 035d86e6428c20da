/**
 * Completes http-proxy's handling of upgrades, which pipes the two sockets and does nothing else: callers that leave before
 * the response, hosts that do not respond, one side that never closes, and responses that are not an upgrade.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { framing, plainPhrase, towardsCaller } from '../exchange/headers.ts'
import { headText } from '../wire/fields.ts'

/** Bytes that a caller may send before the response. */
const maxEarly = 64 * 1024

/** To be called before http-proxy listens to `upstream`. `silence`: milliseconds to wait for a response, or for a close. */
export function overseeUpgrade(upstream: ClientRequest, socket: Socket, silence: number): void {
  const early: Buffer[] = []
  let earlyBytes = 0
  // The socket is read, because the close of a socket that is not read remains unnoticed.
  const onData = (chunk: Buffer) => {
    early.push(chunk)
    earlyBytes += chunk.length
    if (earlyBytes > maxEarly) socket.destroy()
  }
  const gone = () => socket.destroy()
  socket.on('data', onData).on('end', gone)
  upstream.setTimeout(silence, () => upstream.destroy(new Error('silence')))
  upstream.on('error', gone)
  socket.once('close', () => upstream.destroy())

  const settle = () => {
    socket.off('data', onData).off('end', gone).pause()
    if (earlyBytes > 0) socket.unshift(Buffer.concat(early))
  }
  queueMicrotask(() => {
    // http-proxy would send 101 after any upgrade, and would forward other responses without their framing.
    const pipes = upstream.listeners('upgrade') as ((...given: unknown[]) => void)[]
    upstream.removeAllListeners('upgrade').removeAllListeners('response')
    upstream.once('upgrade', (response: IncomingMessage, other: Socket, head: Buffer) => {
      if (response.statusCode !== 101) return forwardDeclined(response, socket, other)
      settle()
      endTogether(socket, other, silence)
      endTogether(other, socket, silence)
      for (const pipe of pipes) pipe.call(upstream, response, other, head)
    })
    upstream.once('response', (response: IncomingMessage) => forwardResponse(response, socket))
  })
}

function endTogether(one: Socket, other: Socket, silence: number): void {
  one.once('end', () => other.setTimeout(silence, () => other.destroy()))
  one.once('close', () => other.destroySoon())
}

/** A response that names a protocol, but is not a 101 (RFC 9110 15.5.22). node:http does not read its body. */
function forwardDeclined(response: IncomingMessage, socket: Socket, other: Socket): void {
  const { statusCode = 0 } = response
  other.destroy()
  const bodiless = ['Content-Length', '0', 'Connection', 'close']
  const fields = towardsCaller(response.rawHeaders, framing)
  socket.end(`${headText(`HTTP/1.1 ${statusCode} \r\n`, [...fields, ...bodiless])}\r\n`, 'latin1')
}

function forwardResponse(response: IncomingMessage, socket: Socket): void {
  const { statusCode = 0, statusMessage = '', rawHeaders } = response
  if (statusCode < 200 || statusCode > 999) return void socket.destroy()
  const line = `HTTP/1.1 ${statusCode} ${plainPhrase(statusMessage)}\r\n`
  const fields = [...towardsCaller(rawHeaders), 'Connection', 'close']
  socket.write(`${headText(line, fields)}\r\n`, 'latin1')
  response.on('error', () => socket.destroy())
  response.on('aborted', () => socket.destroy())
  response.pipe(socket)
  response.once('end', () => socket.destroySoon())
}
