/** Connects to one Redis, to the master that Sentinels name, or to a Cluster. All have the commands of a client. */
import { createClient, createCluster, createSentinel } from '@redis/client'
import { redisAddress } from '../shared/redis-address.ts'

export type RedisClient = ReturnType<typeof createClient>

export interface RedisConnection {
  client: RedisClient
  onReady(listener: () => void): void
  onError(listener: (error: Error) => void): void
  close(): Promise<void>
}

const maxQueued = 100_000
const connectTimeout = 2000
const retryEvery = 1000
/** Milliseconds between two looks of the client at the Sentinels. */
const scanInterval = 1000

export function connectRedis(url: string): RedisConnection {
  const address = redisAddress(url)
  if (address === null) throw new Error('store.redis is not an address of Redis')
  const { kind, tls, hosts, username, password, name, database } = address
  const reconnectStrategy = (tries: number) => Math.min(2000, 100 * tries)
  const socket = { connectTimeout, reconnectStrategy, ...(tls ? { tls: true as const } : {}) }
  const credentials = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  }
  const each = { ...credentials, disableOfflineQueue: true, commandsQueueMaxLength: maxQueued }
  let closed = false

  function open(): RedisClient {
    if (kind === 'cluster')
      return createCluster({
        rootNodes: hosts.map((host) => ({ socket: { ...socket, ...host } })),
        defaults: { ...each, socket },
      }) as unknown as RedisClient
    if (kind === 'sentinel')
      return createSentinel({
        name,
        sentinelRootNodes: hosts,
        scanInterval,
        sentinelClientOptions: { socket },
        nodeClientOptions: { ...each, database, socket },
      }) as unknown as RedisClient
    const [{ host, port } = { host: '', port: 0 }] = hosts
    return createClient({ ...each, database, socket: { ...socket, host, port } }) as RedisClient
  }

  const client = open()
  const emitter = client as unknown as {
    on(event: string, listener: (error: Error) => void): void
  }
  /** A single client tries for ever; the others give up if none of their first nodes answers. */
  const connect = () => {
    client.connect().catch(() => {
      if (!closed && kind !== 'server') setTimeout(connect, retryEvery).unref()
    })
  }
  // Without a listener an error would end the process.
  emitter.on('error', () => undefined)
  connect()

  return {
    client,
    onReady(listener) {
      for (const event of kind === 'cluster' ? ['connect', 'node-ready'] : ['ready'])
        emitter.on(event, listener)
    },
    onError(listener) {
      emitter.on('error', listener)
      if (kind === 'cluster') emitter.on('node-error', listener)
      if (kind === 'sentinel')
        emitter.on('reconnecting', () => listener(new Error('the master is away')))
    },
    async close() {
      closed = true
      if (client.isReady) await client.close()
      else await client.destroy()
    },
  }
}
