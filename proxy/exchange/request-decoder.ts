/**
 * gzip bid requests, decoded on the side (CONTRACT 3). The beginning is decoded at once, for `tmax`; the whole only when
 * OPD wants it, off the event loop, a few at a time, and never without the memory for it.
 */
import { promisify } from 'node:util'
import { constants, gunzip, gunzipSync, type ZlibOptions } from 'node:zlib'
import { tmaxSearchBytes } from '../../opd/openrtb/tmax.ts'
import type { Budget } from '../admission.ts'
import { withRoom } from './body-buffer.ts'
import { isTooLarge } from './encoding.ts'

const decode = promisify<Uint8Array, ZlibOptions, Buffer>(gunzip)

/** Bytes on the wire that are decoded at once: input that decodes to nothing takes time as well. */
const startWire = 16 * 1024
/**
 * A request that becomes longer than `tmaxSearchBytes` and than this times its length on the wire is not read. Bid requests
 * shrink 5 to 30 times; a decompression bomb up to 1,032 times.
 */
const mostRatio = 100
/** Whole requests that are decoded at once, and that wait for it. */
const mostRunning = 2
const mostWaiting = 64

/** `bytes` null: it does not decode. `whole`: there is nothing more to decode. */
export interface Start {
  bytes: Buffer | null
  whole: boolean
}

const undecodable: Start = { bytes: null, whole: true }

/** The decoded length that a gzip body ends with (RFC 1952 2.3.1); it may be false, and is that of the last member. */
const lengthOf = (wire: Buffer): number =>
  wire.length < 4 ? 0 : wire.readUInt32LE(wire.length - 4)

/** Bytes that a gzip body may decode to. */
const mostOf = (wire: Buffer): number => Math.max(tmaxSearchBytes, wire.length * mostRatio)

/** A copy in a buffer of its own length: zlib's buffer has at least 16 KiB. */
function detached(bytes: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

export interface DecoderLimits {
  maxRequestBytes: number
  maxHeldBytes: number
}

export class RequestDecoder {
  /** Whole requests that are decoded at the moment. */
  running = 0
  /** Bytes decoded since the start of the process, those of failed attempts included. */
  bytes = 0
  private readonly queue: (() => void)[] = []
  private readonly budget: Budget
  private readonly limits: () => DecoderLimits

  constructor(budget: Budget, limits: () => DecoderLimits) {
    this.budget = budget
    this.limits = limits
  }

  get waiting(): number {
    return this.queue.length
  }

  /** The first bytes of a request, at most `tmaxSearchBytes`. `overload`: no memory is left for them. */
  start(wire: Buffer): Start | 'overload' {
    if (this.budget.bytes + tmaxSearchBytes > this.limits().maxHeldBytes) return 'overload'
    if (lengthOf(wire) > mostOf(wire)) return undecodable
    if (wire.length <= startWire && lengthOf(wire) <= tmaxSearchBytes) {
      const bytes = this.attempt(wire, constants.Z_FINISH)
      if (bytes !== null) return bytes ? { bytes: detached(bytes), whole: true } : undecodable
    }
    // zlib returns no part of what is too long: the input is halved until it decodes.
    for (let length = Math.min(wire.length >> 1, startWire); length > 0; length >>= 1) {
      const bytes = this.attempt(wire.subarray(0, length), constants.Z_SYNC_FLUSH)
      if (bytes !== null) return bytes ? { bytes, whole: false } : undecodable
    }
    return undecodable
  }

  /** False: it does not decode; null: it becomes too long. */
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
   * The whole request, null where it does not decode to at most `maxRequestBytes`, or is packed as only a bomb is.
   * `overload`: too many wait, or there is no memory for it. `wanted` is asked when its turn comes.
   */
  async whole(wire: Buffer, wanted: () => boolean): Promise<Buffer | null | 'overload'> {
    if (this.running < mostRunning) this.running++
    else if (this.queue.length >= mostWaiting) return 'overload'
    else await new Promise<void>((resolve) => this.queue.push(resolve))
    try {
      return wanted() ? await this.decode(wire) : null
    } finally {
      // The next decode in the queue takes its place.
      const next = this.queue.shift()
      if (next === undefined) this.running--
      else next()
    }
  }

  private async decode(wire: Buffer): Promise<Buffer | null | 'overload'> {
    const { maxRequestBytes, maxHeldBytes } = this.limits()
    const room = Math.min(maxRequestBytes, mostOf(wire))
    if (lengthOf(wire) > room) return null
    const decoded = withRoom(this.budget, room, maxHeldBytes, () =>
      decode(wire, { maxOutputLength: room, chunkSize: 64 * 1024 }),
    )
    if (decoded === null) return 'overload'
    try {
      const body = await decoded
      this.bytes += body.length
      return body
    } catch (error) {
      if (isTooLarge(error)) this.bytes += room
      return null
    }
  }
}
