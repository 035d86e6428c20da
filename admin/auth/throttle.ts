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

interface Attempts {
  count: number
  /** Milliseconds since the epoch: the end of the wait, and the last attempt. */
  until: number
  last: number
}

/** Attempts without a wait, by what a counter is for. Many users share an address, so its limit is higher. */
const freeAttempts = { user: 5, address: 50, pair: 5 }
type Kind = keyof typeof freeAttempts
type Key = readonly [kind: Kind, name: string]
/** Milliseconds. */
const longestWait = 60_000
/** Milliseconds without an attempt after which a counter is dropped. */
const counterLife = 15 * 60_000
const maxEntries = 20_000

export interface Throttle {
  /**
   * Seconds to wait, or 0. With 0 the attempt counts as failed until `succeeded` or `undone` is called.
   *
   * @param user the name as it was sent, whether it is known or not; its length is bounded by the caller
   * @param address of the client; those of one IPv6 /64 count together
   */
  begin(user: string, address: string): number
  /**
   * From now on the user has a counter for this address alone.
   *
   * @param user as in `begin`
   * @param address as in `begin`
   */
  succeeded(user: string, address: string): void
  /**
   * The password was not checked (overload): the attempt is not counted.
   *
   * @param user as in `begin`
   * @param address as in `begin`
   */
  undone(user: string, address: string): void
}

export function createThrottle(now: () => number): Throttle {
  const table = () => new LRUCache<string, Attempts>({ max: maxEntries })
  const tables = { user: table(), address: table(), pair: table() } satisfies Record<Kind, unknown>
  /** Pairs of network and user that have logged in. */
  const known = new LRUCache<string, true>({ max: maxEntries })

  /** The counters of an attempt, the one of the address first. */
  function keysOf(user: string, address: string): { pair: string; keys: readonly Key[] } {
    const network = networkOf(address)
    const pair = `${network} ${user}`
    if (known.get(pair) === true) return { pair, keys: [['pair', pair]] }
    return {
      pair,
      keys: [
        ['address', network],
        ['user', user],
      ],
    }
  }
  function find([kind, name]: Key): Attempts | undefined {
    const attempts = tables[kind].get(name)
    // in both directions: a clock that was set back must not extend the wait
    if (attempts === undefined || Math.abs(now() - attempts.last) > counterLife) return undefined
    return attempts
  }
  function count(key: Key): void {
    const [kind, name] = key
    const attempts = find(key) ?? { count: 0, until: 0, last: 0 }
    attempts.count++
    attempts.last = now()
    const over = attempts.count - freeAttempts[kind]
    if (over >= 0) attempts.until = now() + Math.min(longestWait, 1000 * 2 ** Math.min(over, 6))
    tables[kind].set(name, attempts)
  }
  function uncount(key: Key): void {
    const attempts = find(key)
    if (attempts === undefined) return
    attempts.count = Math.max(0, attempts.count - 1)
    if (attempts.count < freeAttempts[key[0]]) attempts.until = 0
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
        if (key[0] === 'address') uncount(key)
        else tables[key[0]].delete(key[1])
      }
      known.set(pair, true)
    },
    undone(user, address) {
      for (const key of keysOf(user, address).keys) uncount(key)
    },
  }
}
