/** Resolves the names of endpoints in the background. If DNS fails, the last known addresses remain in use. */
import { promises as dns, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { createSlices } from '../../opd/base/slices.ts'

interface Entry {
  addresses: LookupAddress[]
  next: number
  /** Addresses to which a connection has failed, and the time until which others are preferred. */
  avoid: Map<string, number>
  pending: Promise<void> | null
  /** Endpoints with this name. */
  users: number
  /** Time until which a request does not resolve a name without addresses again. */
  unknownUntil: number
}

export type Resolver = ReturnType<typeof createResolver>

/** Milliseconds. */
const avoidFor = 10_000
/** Milliseconds: requests to an unknown name must not occupy the four threads of the resolver. */
const unknownFor = 1000

/**
 * Resolves names of endpoints in the background, and keeps the last addresses of a name that cannot be resolved.
 *
 * @param options `interval`: 15,000 ms by default; `now`: milliseconds, of any origin; `onError` is called for each failed
 * resolution
 */
export function createResolver(options: {
  /** Milliseconds between two resolutions of a name. */
  interval?: number
  resolve?: (hostname: string) => Promise<LookupAddress[]>
  onError: (hostname: string, error: Error) => void
  now?: () => number
}) {
  const { onError, interval = 15_000, now = Date.now } = options
  const resolve = options.resolve ?? ((hostname) => dns.lookup(hostname, { all: true }))
  const entries = new Map<string, Entry>()

  const refresh = (hostname: string, entry: Entry): Promise<void> => {
    entry.pending ??= resolve(hostname)
      .then((addresses) => {
        if (addresses.length > 0) entry.addresses = addresses
        for (const address of entry.avoid.keys())
          if (!addresses.some((current) => current.address === address)) entry.avoid.delete(address)
      })
      .catch((error: Error) => onError(hostname, error))
      .finally(() => {
        entry.pending = null
        entry.unknownUntil = now() + unknownFor
      })
    return entry.pending
  }

  const entryOf = (hostname: string): Entry =>
    getOrAdd(entries, hostname, () => ({
      addresses: [],
      next: 0,
      pending: null,
      users: 0,
      unknownUntil: 0,
      avoid: new Map(),
    }))

  const pick = (entry: Entry): LookupAddress | undefined => {
    const { addresses, avoid } = entry
    for (let attempt = 0; attempt < addresses.length; attempt++) {
      const candidate = addresses[entry.next++ % addresses.length]!
      const until = avoid.get(candidate.address)
      if (until === undefined) return candidate
      if (until <= now()) {
        avoid.delete(candidate.address)
        return candidate
      }
    }
    return addresses[entry.next++ % Math.max(1, addresses.length)]
  }

  const isName = (hostname: string) => !hostname.startsWith('[') && isIP(hostname) === 0

  const refreshAll = async () => {
    const slices = createSlices()
    for (const [hostname, entry] of entries) {
      void refresh(hostname, entry)
      await slices.next()
    }
  }
  const timer = setInterval(() => void refreshAll(), interval).unref()

  return {
    /** For `net.connect`: uses the addresses in memory, if there are any. */
    lookup: ((hostname, _options, callback) => {
      const entry = entryOf(hostname)
      const respond = () => {
        const found = pick(entry)
        if (found !== undefined) return callback(null, found.address, found.family)
        const error = Object.assign(new Error(`no address for ${hostname}`), { code: 'ENOTFOUND' })
        return callback(error, '', 4)
      }
      if (entry.addresses.length > 0 || now() < entry.unknownUntil) respond()
      else void refresh(hostname, entry).then(respond)
    }) satisfies LookupFunction as LookupFunction,
    /** Resolves a name periodically, until `unwatch` was called as often as `watch`. */
    watch(hostname: string): void {
      if (!isName(hostname)) return
      const entry = entryOf(hostname)
      if (entry.users++ === 0) void refresh(hostname, entry)
    },
    unwatch(hostname: string): void {
      const entry = entries.get(hostname)
      if (entry !== undefined && --entry.users <= 0) entries.delete(hostname)
    },
    /** A connection to this address has failed: other addresses are preferred for a while. */
    failed(hostname: string, address: string): void {
      entries.get(hostname)?.avoid.set(address, now() + avoidFor)
    },
    close(): void {
      clearInterval(timer)
    },
  }
}
