/**
 * An upgrade on its way, beside http-proxy, which pipes and leaves the rest open: callers that left before there was
 * an answer, a host that is silent, one side that never closes, an answer that is no upgrade.
 */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { plainPhrase, towardsCaller, without } from '../exchange/headers.ts'
import { headText } from '../wire/fields.ts'

/** What a caller may send before it has its answer. */
const mostEarly = 64 * 1024

/** Call it before http-proxy listens to `upstream`. `silence`: milliseconds to wait for an answer, or for a close. */
export function overseeUpgrade(upstream: ClientRequest, socket: Socket, silence: number): void {
  const early: Buffer[] = []
  let held = 0
  // A socket that nobody reads does not tell that its caller has gone.
  const hold = (chunk: Buffer) => {
    early.push(chunk)
    held += chunk.length
    if (held > mostEarly) socket.destroy()
  }
  const gone = () => socket.destroy()
  socket.on('data', hold).on('end', gone)
  upstream.setTimeout(silence, () => upstream.destroy(new Error('silence')))
  upstream.on('error', gone)
  socket.once('close', () => upstream.destroy())

  const settle = () => {
    socket.off('data', hold).off('end', gone).pause()
    if (held > 0) socket.unshift(Buffer.concat(early))
  }
  queueMicrotask(() => {
    // http-proxy would answer any offer of another protocol with 101, and any other answer in a framing it has lost.
    const pipes = upstream.listeners('upgrade') as ((...given: unknown[]) => void)[]
    upstream.removeAllListeners('upgrade').removeAllListeners('response')
    upstream.once('upgrade', (answer: IncomingMessage, other: Socket, head: Buffer) => {
      if (answer.statusCode !== 101) return declined(answer, socket, other)
      settle()
      endTogether(socket, other, silence)
      endTogether(other, socket, silence)
      for (const pipe of pipes) pipe.call(upstream, answer, other, head)
    })
    upstream.once('response', (answer: IncomingMessage) => giveAnswer(answer, socket))
  })
}

function endTogether(one: Socket, other: Socket, silence: number): void {
  one.once('end', () => other.setTimeout(silence, () => other.destroy()))
  one.once('close', () => other.destroySoon())
}

/** An answer that only names a protocol (RFC 9110 15.5.22): node:http hands its body over unread. */
function declined(answer: IncomingMessage, socket: Socket, other: Socket): void {
  const { statusCode = 0 } = answer
  other.destroy()
  const bodiless = ['Content-Length', '0', 'Connection', 'close']
  const fields = without(towardsCaller(answer.rawHeaders, null, false), 'content-length')
  socket.end(`${headText(`HTTP/1.1 ${statusCode} \r\n`, [...fields, ...bodiless])}\r\n`, 'latin1')
}

function giveAnswer(answer: IncomingMessage, socket: Socket): void {
  const { statusCode = 0, statusMessage = '', rawHeaders } = answer
  if (statusCode < 200 || statusCode > 999) return void socket.destroy()
  const line = `HTTP/1.1 ${statusCode} ${plainPhrase(statusMessage)}\r\n`
  const fields = [...towardsCaller(rawHeaders, null, false), 'Connection', 'close']
  socket.write(`${headText(line, fields)}\r\n`, 'latin1')
  answer.on('error', () => socket.destroy())
  answer.on('aborted', () => socket.destroy())
  answer.pipe(socket)
  answer.once('end', () => socket.destroySoon())
}
