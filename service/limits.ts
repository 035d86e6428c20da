/** The limits of a node, divided among the processes that serve its bid traffic. */
import { availableParallelism } from 'node:os'
import type { ProxyConfig, Route } from '../proxy/config.ts'
import { heldBytesLimit } from '../proxy/memory-shares.ts'

/** One of `count` processes. */
export interface Place {
  index: number
  count: number
}

const most = 64

/**
 * The number of processes that serve bids, this one included.
 *
 * @param config `workers`: 1 to 64, or `auto`, one for each CPU that the process may use, at most 64
 */
export const workerCount = ({ workers }: ProxyConfig): number =>
  workers === 'auto' ? Math.min(most, availableParallelism()) : workers

/** At least 1: a process with a limit of 0 would refuse everything. */
export const shareOf = (limit: number, { index, count }: Place): number =>
  Math.max(1, Math.floor(limit / count) + (index < limit % count ? 1 : 0))

export function dividedConfig(config: ProxyConfig, place: Place): ProxyConfig {
  const { maxConnections, maxInFlight, maxInFlightPerSupplier, maxHeldBytes } = config
  if (place.count === 1) return config
  return {
    ...config,
    maxConnections: shareOf(maxConnections, place),
    maxInFlight: shareOf(maxInFlight, place),
    maxInFlightPerSupplier: shareOf(maxInFlightPerSupplier, place),
    maxHeldBytes: shareOf(heldBytesLimit(maxHeldBytes), place),
  }
}

export const dividedRoute = (route: Route, place: Place): Route =>
  route.maxInFlight === 'auto' || place.count === 1
    ? route
    : { ...route, maxInFlight: shareOf(route.maxInFlight, place) }
