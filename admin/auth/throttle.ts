/**
 * Throttles failed log-ins by user and by address (CONTRACT 9): some attempts are free, then the wait doubles. A user
 * who has logged in from an address before has a counter of this pair alone. So attempts on the same name from other
 * addresses, or on other names from the same address, do not lock the user out.
 */
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'

/** The unit that is throttled: an IPv4 address, or an IPv6 /64, which one household has. */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address
  const parsed = ipaddr.IPv6.parse(address)
  return Buffer.from(parsed.toByteArray().slice(0, 8)).toString('hex')
}

interface Tries {
  count: number
  /** Milliseconds since the epoch. */
  until: number
  last: number
}

/** Many users share an address, so its limit is higher. */
const free = { user: 5, address: 50, both: 5 }
type Kind = keyof typeof free
type Key = readonly [kind: Kind, key: string]
const longest = 60_000
/** Milliseconds without an attempt after which a counter is dropped. */
const forget = 15 * 60_000
const maxEntries = 20_000

export interface Throttle {
  /** Seconds to wait, or 0. With 0 the attempt counts as failed until `succeeded` is called. */
  begin(user: string, address: string): number
  succeeded(user: string, address: string): void
  /** The password was not checked (overload): the attempt is not counted. */
  undone(user: string, address: string): void
}

export function createThrottle(now: () => number): Throttle {
  const table = () => new LRUCache<string, Tries>({ max: maxEntries })
  const tables = { user: table(), address: table(), both: table() } satisfies Record<Kind, unknown>
  /** Pairs of network and user that have logged in. */
  const known = new LRUCache<string, true>({ max: maxEntries })

  /** The counters of an attempt, the one of the address first. */
  function keysOf(user: string, address: string): { pair: string; keys: readonly Key[] } {
    const network = networkOf(address)
    const pair = `${network} ${user}`
    if (known.get(pair) === true) return { pair, keys: [['both', pair]] }
    return {
      pair,
      keys: [
        ['address', network],
        ['user', user],
      ],
    }
  }
  function find([kind, key]: Key): Tries | undefined {
    const tries = tables[kind].get(key)
    // a clock that was set back must not extend the wait
    return tries === undefined || Math.abs(now() - tries.last) > forget ? undefined : tries
  }
  function count(of: Key): void {
    const [kind, key] = of
    const tries = find(of) ?? { count: 0, until: 0, last: 0 }
    tries.count++
    tries.last = now()
    const over = tries.count - free[kind]
    if (over >= 0) tries.until = now() + Math.min(longest, 1000 * 2 ** Math.min(over, 6))
    tables[kind].set(key, tries)
  }
  function back(of: Key): void {
    const tries = find(of)
    if (tries === undefined) return
    tries.count = Math.max(0, tries.count - 1)
    if (tries.count < free[of[0]]) tries.until = 0
  }

  return {
    begin(user, address) {
      const { keys } = keysOf(user, address)
      // Only an attempt that may check the password creates entries. Otherwise the refused attempts of one address
      // would evict the entry of a user whose password is being guessed.
      for (const key of keys) {
        const wait = (find(key)?.until ?? 0) - now()
        if (wait > 0) return Math.ceil(wait / 1000)
      }
      for (const key of keys) count(key)
      return 0
    },
    succeeded(user, address) {
      const { pair, keys } = keysOf(user, address)
      for (const key of keys) {
        if (key[0] === 'address') back(key)
        else tables[key[0]].delete(key[1])
      }
      known.set(pair, true)
    },
    undone(user, address) {
      for (const key of keysOf(user, address).keys) back(key)
    },
  }
}
