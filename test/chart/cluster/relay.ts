/** Lets pods reach a port of the loopback interface. */
import { once } from 'node:events'
import { type AddressInfo, createConnection, createServer } from 'node:net'
import type { Test } from 'tap'
import { nodeAddress } from './node.ts'

/** The port on the address of the node. */
export async function relay(t: Test, port: number): Promise<number> {
  const server = createServer((from) => {
    const to = createConnection(port, '127.0.0.1')
    from.pipe(to).pipe(from)
    from.on('error', () => to.destroy())
    to.on('error', () => from.destroy())
  }).listen(0, nodeAddress)
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}
