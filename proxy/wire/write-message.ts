/** Writes a message of the fast lane: head and body. */
import type { Socket } from 'node:net'

/** Head and body up to this length are written as one string: Node copies it to the stack and allocates nothing. */
export const singleWrite = 16 * 1024

/** `body`: bytes, the same as latin1 text, or null. */
export function writeMessage(socket: Socket, head: string, body: Buffer | string | null): void {
  if (body === null) socket.write(head, 'latin1')
  else if (head.length + body.length <= singleWrite)
    socket.write(head + (typeof body === 'string' ? body : body.toString('latin1')), 'latin1')
  else {
    socket.cork()
    socket.write(head, 'latin1')
    if (typeof body === 'string') socket.write(body, 'latin1')
    else socket.write(body)
    socket.uncork()
  }
}
