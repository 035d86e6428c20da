/** A TCP proxy that can swallow what passes: connections stay open and nothing comes back, as behind a lost link. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

interface TcpProxy {
  port: number
  /** Swallows all bytes in both directions, of connections that are open and of new ones; or passes them again. */
  swallow(on: boolean): void
  /** The same for what the target answers: it still gets everything. */
  deafen(on: boolean): void
  close(): Promise<void>
}

/** `delay`: milliseconds in each direction. `port`: 0 takes a free one. */
export async function tcpProxy(target: number, delay = 0, port = 0): Promise<TcpProxy> {
  let swallowing = false
  let deaf = false
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(target, '127.0.0.1')
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from)
      from.on('data', (chunk) => {
        if (swallowing || (deaf && from === far)) return
        if (delay === 0) to.write(chunk)
        else setTimeout(() => to.write(chunk), delay)
      })
      from.on('error', () => undefined)
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    swallow(on) {
      // bytes are missing from its connections, so they cannot go on
      if (!on && swallowing) for (const socket of sockets) socket.destroy()
      swallowing = on
    },
    deafen(on) {
      if (!on && deaf) for (const socket of sockets) socket.destroy()
      deaf = on
    },
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}
