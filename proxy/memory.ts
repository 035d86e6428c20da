/**
 * What of the machine's memory, or the container's, each part may fill. The parts fit by construction:
 *
 *   bodies     a quarter, 32 to 512 MiB    `proxy.maxHeldBytes: auto`
 *   bid log    a quarter, 16 to 256 MiB    off the JavaScript heap
 *   heap       a quarter                   `--max-old-space-size-percentage` in the image
 *   the rest   a quarter                   program, sockets, models, and what allocators keep
 *
 * Where the limit is 1 GiB that is 256 MiB each, as in the chart.
 */
import { totalmem } from 'node:os'

const MiB = 1024 ** 2

/** Bytes: the limit of the container (cgroup), or the machine's memory where there is none. */
export function memoryLimit(): number {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

const quarter = (limit: number, least: number, most: number) =>
  Math.min(most, Math.max(least, Math.floor(limit / 4)))

/** Bytes of requests and answers that this node holds at once; past them `overload`. */
export const heldLimit = (setting: number | 'auto', limit = memoryLimit()): number =>
  setting === 'auto' ? quarter(limit, 32 * MiB, 512 * MiB) : setting

/** Bytes of the bid log of this node. */
export const bidLogLimit = (limit = memoryLimit()): number => quarter(limit, 16 * MiB, 256 * MiB)
