/** The connections of the fast lane: one clock for all their time limits, and their end in a drain. */
import type { Socket } from 'node:net'
import { FastConnection, type FastGate } from './strict-connection.ts'

export interface FastLane {
  accept(socket: Socket): void
  /** Closes connections that wait for a request. */
  closeIdle(): void
  close(): void
}

export function createFastLane(gate: FastGate): FastLane {
  const open = new Set<FastConnection>()
  const forget = (connection: FastConnection) => void open.delete(connection)
  const every = Math.max(50, Math.min(1000, gate.headTimeout / 5))
  const timer = setInterval(() => {
    const now = performance.now()
    for (const connection of open) connection.check(now)
  }, every)
  timer.unref()
  return {
    accept: (socket) => void open.add(new FastConnection(socket, gate, forget)),
    closeIdle() {
      for (const connection of open) if (connection.idle) connection.destroy()
    },
    close: () => clearInterval(timer),
  }
}
