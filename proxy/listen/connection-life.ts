/** When a caller's connection ends: after its maximum age, or in a drain. Both lanes use it. */
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { connectionOf, newestResponse } from '../../opd/base/pipelining.ts'

export interface ConnectionLife {
  /** `performance.now()` after which the next response is the last one. */
  retireAt: number
  /** General lane: the response that ends the connection. */
  last: ServerResponse | null
}

export class ConnectionLives {
  draining = false
  private readonly lives = new WeakMap<Socket, ConnectionLife>()

  /** The connection retires after `age` milliseconds. */
  begin(socket: Socket, age: number): ConnectionLife {
    const life = { retireAt: performance.now() + age, last: null }
    this.lives.set(socket, life)
    return life
  }

  /** Whether the next response is the last one of its connection. */
  isOver(life: ConnectionLife, now: number): boolean {
    return this.draining || now >= life.retireAt
  }

  /**
   * Whether the connection ends with this response. Pipelined requests that have already arrived are still served: the last
   * response is that of the newest request.
   *
   * @param response of the general lane, whose head is about to be written
   */
  isLast(response: ServerResponse): boolean {
    const socket = connectionOf(response)
    const life = this.lives.get(socket)
    if (life === undefined) return this.draining
    if (life.last === null && this.isOver(life, performance.now()))
      life.last = newestResponse(socket)
    return life.last === response
  }
}
