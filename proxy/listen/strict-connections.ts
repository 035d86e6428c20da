import type { Socket } from 'node:net'
import type { ConnectionLife } from './connection-life.ts'
import { checkInterval } from './node-server.ts'
import { type FastLane, StrictConnection } from './strict-connection.ts'

/** The connections of the fast lane. One timer checks the time limits of all. */
export class StrictConnections {
  private readonly lane: FastLane
  private readonly open = new Set<StrictConnection>()
  private readonly timer: NodeJS.Timeout

  constructor(lane: FastLane, headTimeout: number) {
    this.lane = lane
    this.timer = setInterval(() => {
      const now = performance.now()
      for (const connection of this.open) connection.check(now)
    }, checkInterval(headTimeout))
    this.timer.unref()
  }

  accept(socket: Socket, life: ConnectionLife): void {
    this.open.add(new StrictConnection(socket, life, this.lane, this.removed))
  }

  private readonly removed = (connection: StrictConnection) => void this.open.delete(connection)

  closeIdle(): void {
    for (const connection of this.open) if (connection.idle) connection.destroy()
  }

  close(): void {
    clearInterval(this.timer)
  }
}
