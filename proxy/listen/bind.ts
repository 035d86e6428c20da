/** Binds a listener, for one process or for several that share a port. */
import { type AddressInfo, createServer, type ListenOptions, type Server } from 'node:net'

export function bind(server: Server, options: ListenOptions): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options, () => {
      server.off('error', reject)
      resolve(server.address() as AddressInfo)
    })
  })
}

/** With SO_REUSEPORT, a second service of the same user would get a part of the connections without an error. */
export async function assertFree(address: { host: string; port: number }): Promise<void> {
  if (address.port === 0) return
  const server = createServer()
  await bind(server, address)
  await new Promise((resolve) => server.close(resolve))
}
