/** Names of endpoints, resolved off the hot path; the last good addresses stay when DNS does not answer. */
import { promises as dns, type LookupAddress } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { createSlices } from '../../opd/shared/slices.ts'

interface Entry {
  addresses: LookupAddress[]
  next: number
  /** Address -> until when it is passed over, after a connection to it failed. */
  avoid: Map<string, number>
  pending: Promise<void> | null
  /** Endpoints with this name. */
  users: number
  /** Until when a name without any address is not asked for again by a request. */
  unknownUntil: number
}

export interface Resolver {
  /** For `net.connect`: answers from memory once a name is known. */
  lookup: LookupFunction
  /** Asks for these names from now on; a name is asked for until each `watch` has had its `unwatch`. */
  watch(hostnames: readonly string[]): void
  unwatch(hostnames: readonly string[]): void
  /** A connection to this address failed: others go first for a while. */
  failed(hostname: string, address: string): void
  close(): void
}

const avoidFor = 10_000
/** Requests to a name that nobody knows must not keep the four threads of the resolver busy. */
const unknownFor = 1000

export function createResolver(options: {
  /** Milliseconds between two looks at each name. */
  every?: number
  resolve?: (hostname: string) => Promise<LookupAddress[]>
  onError: (hostname: string, error: Error) => void
  now?: () => number
}): Resolver {
  const { onError, every = 15_000, now = Date.now } = options
  const resolve = options.resolve ?? ((hostname) => dns.lookup(hostname, { all: true }))
  const entries = new Map<string, Entry>()

  const refresh = (hostname: string, entry: Entry): Promise<void> => {
    entry.pending ??= resolve(hostname)
      .then((addresses) => {
        if (addresses.length > 0) entry.addresses = addresses
        for (const address of entry.avoid.keys())
          if (!addresses.some((each) => each.address === address)) entry.avoid.delete(address)
      })
      .catch((error: Error) => onError(hostname, error))
      .finally(() => {
        entry.pending = null
        entry.unknownUntil = now() + unknownFor
      })
    return entry.pending
  }

  const entryOf = (hostname: string): Entry => {
    let entry = entries.get(hostname)
    if (entry === undefined) {
      const none = { addresses: [], next: 0, pending: null, users: 0, unknownUntil: 0 }
      entry = { ...none, avoid: new Map() }
      entries.set(hostname, entry)
    }
    return entry
  }

  const pick = (entry: Entry): LookupAddress | undefined => {
    const { addresses, avoid } = entry
    for (let tried = 0; tried < addresses.length; tried++) {
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
  const timer = setInterval(() => void refreshAll(), every)
  timer.unref()

  return {
    lookup(hostname, _options, callback) {
      const entry = entryOf(hostname)
      const answer = () => {
        const found = pick(entry)
        if (found !== undefined) return callback(null, found.address, found.family)
        const error = Object.assign(new Error(`no address for ${hostname}`), { code: 'ENOTFOUND' })
        return callback(error, '', 4)
      }
      if (entry.addresses.length > 0 || now() < entry.unknownUntil) answer()
      else void refresh(hostname, entry).then(answer)
    },
    watch(hostnames) {
      for (const hostname of hostnames.filter(isName)) {
        const entry = entryOf(hostname)
        if (entry.users++ === 0) void refresh(hostname, entry)
      }
    },
    unwatch(hostnames) {
      for (const hostname of hostnames) {
        const entry = entries.get(hostname)
        if (entry !== undefined && --entry.users <= 0) entries.delete(hostname)
      }
    },
    failed(hostname, address) {
      entries.get(hostname)?.avoid.set(address, now() + avoidFor)
    },
    close() {
      clearInterval(timer)
    },
  }
}
