/**
 * How the memory of the machine or container is divided:
 *
 *   bodies     a quarter, 32 to 512 MiB    `proxy.maxHeldBytes: auto`
 *   bid log    a quarter, 16 to 256 MiB    off the JavaScript heap
 *   heap       a quarter                   `--max-old-space-size-percentage` in the image
 *   the rest   a quarter                   program, sockets, models, fragmentation
 *
 * With a limit of 1 GiB, as in the chart, each part is 256 MiB. With `proxy.workers` the processes divide the bodies; the
 * heaps of the workers together have as much as that of the first process, which has the bid log.
 */
import { totalmem } from 'node:os'

const MiB = 1024 ** 2

/** Bytes: the limit of the container (cgroup), or the machine's memory without such a limit. */
function memoryLimit(): number {
  const constrained = process.constrainedMemory()
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
}

const quarter = (limit: number, least: number, most: number) =>
  Math.min(most, Math.max(least, Math.floor(limit / 4)))

/**
 * Bytes of request and response bodies in memory; above the limit, requests are refused with `overload`.
 *
 * @param setting `proxy.maxHeldBytes`, bytes
 * @param limit bytes that the process may use
 */
export const heldBytesLimit = (setting: number | 'auto', limit = memoryLimit()): number =>
  setting === 'auto' ? quarter(limit, 32 * MiB, 512 * MiB) : setting

/**
 * Bytes of the bid log of this node.
 *
 * @param limit bytes that the process may use
 */
export const bidLogLimit = (limit = memoryLimit()): number => quarter(limit, 16 * MiB, 256 * MiB)
