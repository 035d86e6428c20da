/**
 * Addresses of Redis or Valkey:
 *
 *   redis://user:password@host:6379/0             one server; rediss: with TLS
 *   redis+sentinel://host:26379,host:26379/name   the master `name` of these Sentinels; a database may follow: /name/0
 *   redis+cluster://host:6379,host:6379           a Cluster, found by some of its nodes
 */
interface RedisAddress {
  kind: 'server' | 'sentinel' | 'cluster'
  tls: boolean
  hosts: { host: string; port: number }[]
  username?: string
  password?: string
  /** The name of the master at the Sentinels; otherwise empty. */
  name: string
  database: number
}

const form = /^redis(s?)(?:\+(sentinel|cluster))?:\/\/(?:([^@/]*)@)?([^@/]+)(?:\/([^?#]*))?$/
const hostForm = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/

/**
 * null: not an address.
 *
 * @param text a URL of the configuration: `redis://`, `rediss://`, with several hosts for Sentinel and Cluster
 */
export function redisAddress(text: string): RedisAddress | null {
  const [matched, secure, kind = 'server', credentials = '', hosts = '', path = ''] =
    form.exec(text) ?? []
  if (matched === undefined) return null
  const defaultPort = kind === 'sentinel' ? 26379 : 6379
  const found = hosts.split(',').map((part) => hostForm.exec(part))
  if (found.some((match) => match === null || Number(match[2] ?? 1) > 65535)) return null
  const parts = path.split('/').filter((part) => part !== '')
  const name = kind === 'sentinel' ? (parts.shift() ?? '') : ''
  const [database = '0', ...more] = parts
  if (more.length > 0 || !/^\d{1,5}$/.test(database)) return null
  if ((kind === 'sentinel') !== (name !== '')) return null
  if (kind === 'server' && found.length > 1) return null
  if (kind === 'cluster' && Number(database) !== 0) return null
  const [username = '', password = ''] = credentials.split(':').map(decodeOr)
  return {
    kind: kind as RedisAddress['kind'],
    tls: secure === 's',
    hosts: found.map((match) => ({
      host: match![1]!.replace(/^\[|\]$/g, ''),
      port: Number(match![2] ?? defaultPort),
    })),
    ...(username === '' ? {} : { username }),
    ...(password === '' ? {} : { password }),
    name,
    database: Number(database),
  }
}

function decodeOr(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
