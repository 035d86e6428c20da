/** Writes a message of the fast lane: head and body. */
import type { Socket } from 'node:net'
import type { Body } from '../types.ts'
import { isTls } from './socket-reads.ts'

/** Head and body up to this length are written at once. */
export const singleWrite = 16 * 1024

/**
 * Messages are put together here, one after another. Node would copy a string of several parts to a new string first, and then
 * to the memory that is written.
 */
let message = Buffer.allocUnsafeSlow(singleWrite)

/** `head`: up to the value of its Content-Length. */
export function writeMessage(socket: Socket, head: string, body: Body): void {
  const length = `${body.length}\r\n\r\n`
  const from = head.length + length.length
  if (from + body.length <= singleWrite) {
    message.write(head, 'latin1')
    message.write(length, head.length, 'latin1')
    if (typeof body === 'string') message.write(body, from, 'latin1')
    else message.set(body, from)
    // TLS has encrypted or copied it when the call returns, unless the socket has an earlier message to write.
    const isTaken = isTls(socket) && !socket.connecting && socket.writableLength === 0
    socket.write(message.subarray(0, from + body.length))
    // What the kernel has not taken yet remains with the socket.
    if (socket.writableLength > 0 && !isTaken) message = Buffer.allocUnsafeSlow(singleWrite)
  } else {
    socket.cork()
    socket.write(head + length, 'latin1')
    if (typeof body === 'string') socket.write(body, 'latin1')
    else socket.write(body)
    socket.uncork()
  }
}
