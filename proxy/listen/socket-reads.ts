/**
 * What a caller's socket reads. Chunks are taken before the stream has them: a stream emits each one, and looks in another tick
 * whether to read on, which is 6 % of a no-bid. A socket that is paused or passed on is a stream again.
 */
import { Socket } from 'node:net'

export class SocketReads {
  private readonly socket: Socket
  private readonly onData: (chunk: Buffer) => void
  private direct = true

  /** Create it before the socket has read anything. */
  constructor(socket: Socket, onData: (chunk: Buffer) => void) {
    this.socket = socket
    this.onData = onData
    socket.push = (chunk: Buffer | null) => {
      if (chunk === null) return Socket.prototype.push.call(socket, null)
      onData(chunk)
      return true
    }
  }

  private endDirect(): void {
    if (!this.direct) return
    this.direct = false
    delete (this.socket as Partial<Socket>).push
  }

  pause(): void {
    const { socket, direct } = this
    this.endDirect()
    socket.pause()
    if (direct) socket.on('data', this.onData)
  }

  resume(): void {
    if (this.socket.isPaused()) this.socket.resume()
  }

  /** Whoever has the socket next reads from it. */
  stop(): void {
    this.endDirect()
    this.socket.off('data', this.onData)
  }
}
