/** Failed log-ins are slowed, by user and by address (CONTRACT 9): some are free, then the wait doubles. */
import { isIPv6 } from 'node:net'
import { LRUCache } from 'lru-cache'

interface Tries {
  count: number
  /** Milliseconds since the epoch. */
  until: number
  last: number
}

/** Many users stand behind one address, so it is given more. */
const free = { user: 5, address: 50 }
const longest = 60_000
/** Milliseconds without a try after which the past is forgotten. */
const forget = 15 * 60_000
const maxEntries = 20_000

/** A household has a whole /64: its addresses count as one. */
function network(address: string): string {
  return isIPv6(address) && !address.startsWith('::ffff:')
    ? address.split(':').slice(0, 4).join(':')
    : address
}

export interface Throttle {
  /** Seconds to wait, or 0: then the try counts as failed until `succeeded`. */
  begin(user: string, address: string): number
  succeeded(user: string, address: string): void
  /** The try was never decided (overload): it counts for nothing. */
  undone(user: string, address: string): void
}

export function createThrottle(now: () => number): Throttle {
  const tables = {
    user: new LRUCache<string, Tries>({ max: maxEntries }),
    address: new LRUCache<string, Tries>({ max: maxEntries }),
  }
  type Kind = keyof typeof tables
  const get = (kind: Kind, key: string): Tries => {
    let tries = tables[kind].get(key)
    if (tries === undefined || now() - tries.last > forget) {
      tries = { count: 0, until: 0, last: now() }
      tables[kind].set(key, tries)
    }
    return tries
  }
  const back = (kind: Kind, key: string) => {
    const tries = get(kind, key)
    tries.count = Math.max(0, tries.count - 1)
    if (tries.count < free[kind]) tries.until = 0
  }
  return {
    begin(user, address) {
      const both = [
        ['user', get('user', user)],
        ['address', get('address', network(address))],
      ] as const
      const wait = Math.max(...both.map(([, { until }]) => until - now()))
      if (wait > 0) return Math.ceil(wait / 1000)
      for (const [kind, tries] of both) {
        tries.count++
        tries.last = now()
        const over = tries.count - free[kind]
        if (over >= 0) tries.until = now() + Math.min(longest, 1000 * 2 ** Math.min(over, 6))
      }
      return 0
    },
    succeeded(user, address) {
      tables.user.delete(user)
      back('address', network(address))
    },
    undone(user, address) {
      back('user', user)
      back('address', network(address))
    },
  }
}
