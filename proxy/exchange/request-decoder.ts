/**
 * Decodes gzip bid requests (CONTRACT 3); the supplier gets them encoded. The beginning, with `tmax`, is decoded at once.
 * The whole request is decoded only if OPD needs it: off the event loop, two at a time, within the memory budget.
 */
import { promisify } from 'node:util'
import { constants, gunzip, gunzipSync, type ZlibOptions } from 'node:zlib'
import { tmaxSearchBytes } from '../../opd/openrtb/tmax.ts'
import type { Budget } from '../admission/overload.ts'
import { isTooLarge } from './encoding.ts'
import { claimedLength, type KeptGunzip } from './kept-gunzip.ts'

/**
 * Runs `work` with `bytes` of the budget reserved until it ends, even if its result is not used. Null: the reservation
 * would exceed `limit`, and `work` does not run.
 */
function withReservation<T>(
  budget: Budget,
  bytes: number,
  limit: number,
  work: () => Promise<T>,
): Promise<T> | null {
  if (budget.bytes + bytes > limit) return null
  budget.bytes += bytes
  return work().finally(() => {
    budget.bytes -= bytes
  })
}

const decode = promisify<Uint8Array, ZlibOptions, Buffer>(gunzip)

/** Encoded bytes that are decoded at once: input that decodes to nothing takes time as well. */
const startLength = 16 * 1024
/**
 * A request that decodes to more than `tmaxSearchBytes`, and more than this times its encoded length, is not read. The ratio of
 * bid requests is 5 to 30, that of a decompression bomb up to 1,032.
 */
const maxRatio = 100
/** Whole requests that are decoded concurrently, and that wait. */
const maxRunning = 2
const maxWaiting = 64

/** `bytes` null: the request cannot be decoded. `whole`: the request has no further bytes. */
interface Start {
  bytes: Buffer | null
  isWhole: boolean
}

const undecodable: Start = { bytes: null, isWhole: true }

/** Bytes that a gzip body may decode to. */
const maxDecoded = (wire: Buffer): number => Math.max(tmaxSearchBytes, wire.length * maxRatio)

/** A copy of exact length: zlib's buffer has at least 16 KiB. */
function detached(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

interface DecoderLimits {
  maxRequestBytes: number
  maxHeldBytes: number
}

/** Decodes gzip requests for pricing; at most some at a time. */
export class RequestDecoder {
  /** Whole requests that are being decoded. */
  running = 0
  /** Bytes decoded since the start of the process, those of failed attempts included. */
  bytes = 0
  private readonly queue: (() => void)[] = []
  private readonly budget: Budget
  private readonly limits: () => DecoderLimits
  private readonly gunzip: KeptGunzip | null

  /** `gunzip` null: each request gets a zlib object of its own. */
  constructor(budget: Budget, limits: () => DecoderLimits, gunzip: KeptGunzip | null) {
    this.budget = budget
    this.limits = limits
    this.gunzip = gunzip
  }

  get waiting(): number {
    return this.queue.length
  }

  /** The first bytes of a request, at most `tmaxSearchBytes`. `overload`: there is no memory for them. */
  start(wire: Buffer): Start | 'overload' {
    if (this.budget.bytes + tmaxSearchBytes > this.limits().maxHeldBytes) return 'overload'
    if (claimedLength(wire) > maxDecoded(wire)) return undecodable
    if (wire.length <= startLength && claimedLength(wire) <= tmaxSearchBytes) {
      const kept = this.gunzip?.decode(wire, tmaxSearchBytes) ?? null
      if (kept !== null) {
        this.bytes += kept.length
        return { bytes: kept, isWhole: true }
      }
      const bytes = this.attempt(wire, constants.Z_FINISH)
      if (bytes !== null) return bytes ? { bytes: detached(bytes), isWhole: true } : undecodable
    }
    // zlib returns nothing if the output is too long: the input is halved until it decodes.
    for (let length = Math.min(wire.length >> 1, startLength); length > 0; length >>= 1) {
      const bytes = this.attempt(wire.subarray(0, length), constants.Z_SYNC_FLUSH)
      if (bytes !== null) return bytes ? { bytes, isWhole: false } : undecodable
    }
    return undecodable
  }

  /** False: not decodable; null: too long. */
  private attempt(wire: Buffer, finishFlush: number): Buffer | false | null {
    try {
      const bytes = gunzipSync(wire, { maxOutputLength: tmaxSearchBytes, finishFlush })
      this.bytes += bytes.length
      return bytes
    } catch (error) {
      if (!isTooLarge(error)) return false
      this.bytes += tmaxSearchBytes
      return null
    }
  }

  /**
   * The whole request. Null: it does not decode to at most `maxRequestBytes`, or its ratio is that of a bomb. `overload`:
   * too many requests wait, or there is no memory for it. `isNeeded` is called after the wait.
   */
  async decodeWhole(wire: Buffer, isNeeded: () => boolean): Promise<Buffer | null | 'overload'> {
    if (this.running < maxRunning) this.running++
    else if (this.queue.length >= maxWaiting) return 'overload'
    else await new Promise<void>((resolve) => this.queue.push(resolve))
    try {
      return isNeeded() ? await this.decode(wire) : null
    } finally {
      // The next request in the queue takes this place.
      const next = this.queue.shift()
      if (next === undefined) this.running--
      else next()
    }
  }

  private async decode(wire: Buffer): Promise<Buffer | null | 'overload'> {
    const { maxRequestBytes, maxHeldBytes } = this.limits()
    const most = Math.min(maxRequestBytes, maxDecoded(wire))
    if (claimedLength(wire) > most) return null
    const decoded = withReservation(this.budget, most, maxHeldBytes, () =>
      decode(wire, { maxOutputLength: most, chunkSize: 64 * 1024 }),
    )
    if (decoded === null) return 'overload'
    try {
      const body = await decoded
      this.bytes += body.length
      return body
    } catch (error) {
      if (isTooLarge(error)) this.bytes += most
      return null
    }
  }
}
