/** Connects to one Redis, to the master that Sentinels name, or to a Cluster. All have the commands of a client. */
import type { EventEmitter } from 'node:events'
import { createClient, createCluster, createSentinel } from '@redis/client'
import { redisAddress } from '../base/redis-address.ts'

type Client = ReturnType<typeof createClient>
/** What a client, a Cluster and a Sentinel have in common, as far as it is used. */
export type RedisClient = Pick<
  Client,
  'hGet' | 'hGetAll' | 'zRem' | 'xAdd' | 'xRange' | 'eval' | 'isReady'
> &
  EventEmitter & {
    withTypeMapping(mapping: Parameters<Client['withTypeMapping']>[0]): {
      hGet(key: string, field: string): Promise<string | Uint8Array | null>
    }
    connect(): Promise<unknown>
    close(): Promise<unknown>
    destroy(): unknown
  }

/** Of all keys. */
export const redisPrefix = 'bidweir:'
const maxQueued = 100_000
const connectTimeout = 2000
const retryEvery = 1000
/** Milliseconds between two looks of the client at the Sentinels. */
const scanInterval = 1000

export function connectRedis(url: string) {
  const address = redisAddress(url)
  if (address === null) throw new Error('store.redis is not an address of Redis')
  const { kind, tls, hosts, username, password, name, database } = address
  const reconnectStrategy = (tries: number) => Math.min(2000, 100 * tries)
  const socket = { connectTimeout, reconnectStrategy, ...(tls ? { tls: true as const } : {}) }
  const credentials = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  }
  const options = { ...credentials, disableOfflineQueue: true, commandsQueueMaxLength: maxQueued }
  let closed = false

  function open(): RedisClient {
    if (kind === 'cluster')
      return createCluster({
        rootNodes: hosts.map((host) => ({ socket: { ...socket, ...host } })),
        defaults: { ...options, socket },
      })
    if (kind === 'sentinel')
      return createSentinel({
        name,
        sentinelRootNodes: hosts,
        scanInterval,
        sentinelClientOptions: { socket },
        nodeClientOptions: { ...options, database, socket },
      })
    const [{ host, port } = { host: '', port: 0 }] = hosts
    return createClient({ ...options, database, socket: { ...socket, host, port } })
  }

  const client = open()
  /** A single client tries for ever; the others give up if none of their first nodes answers. */
  const connect = () => {
    // The listeners of `onError` report why.
    client.connect().catch(() => {
      if (!closed && kind !== 'server') setTimeout(connect, retryEvery).unref()
    })
  }
  // Without a listener an error would end the process.
  client.on('error', () => undefined)
  connect()

  return {
    client,
    isCluster: kind === 'cluster',
    onReady(listener: () => void) {
      for (const event of kind === 'cluster' ? ['connect', 'node-ready'] : ['ready'])
        client.on(event, listener)
    },
    onError(listener: (error: Error) => void) {
      client.on('error', listener)
      if (kind === 'cluster') client.on('node-error', listener)
      if (kind === 'sentinel')
        client.on('reconnecting', () => listener(new Error('the master is away')))
    },
    async close() {
      closed = true
      if (client.isReady) await client.close()
      else await client.destroy()
    },
  }
}
