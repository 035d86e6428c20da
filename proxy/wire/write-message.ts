/** Writes a message of the fast lane: head and body. */
import type { Socket } from 'node:net'
import type { Body } from '../types.ts'
import { isTls } from './socket-reads.ts'

/** Head and body up to this length are written at once. */
export const singleWrite = 16 * 1024

/**
 * Messages are put together here from `start` on, one over another. Node would copy a string of several parts to a new string
 * first, and then to the memory that is written. A message that its socket has not sent remains, and the next one is behind it.
 */
const blockLength = 4 * singleWrite
let block = Buffer.allocUnsafeSlow(blockLength)
let start = 0

/** What is written remains as it is: its socket has not sent it. */
function keep(to: number): void {
  start = to
  if (blockLength - start >= singleWrite) return
  block = Buffer.allocUnsafeSlow(blockLength)
  start = 0
}

/** `head`: up to the value of its Content-Length. */
export function writeMessage(socket: Socket, head: string, body: Body): void {
  const length = `${body.length}\r\n\r\n`
  const lengthAt = start + head.length
  const bodyAt = lengthAt + length.length
  const to = bodyAt + body.length
  if (to - start <= singleWrite) {
    block.write(head, start, 'latin1')
    block.write(length, lengthAt, 'latin1')
    if (typeof body === 'string') block.write(body, bodyAt, 'latin1')
    else block.set(body, bodyAt)
    // TLS has encrypted or copied it when the call returns, unless the socket has an earlier message to write.
    const isTaken = isTls(socket) && !socket.connecting && socket.writableLength === 0
    socket.write(block.subarray(start, to))
    if (socket.writableLength > 0 && !isTaken) keep(to)
  } else {
    socket.cork()
    socket.write(head + length, 'latin1')
    if (typeof body === 'string') socket.write(body, 'latin1')
    else socket.write(body)
    socket.uncork()
  }
}
