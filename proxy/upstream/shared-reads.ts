/** Connects to an endpoint. All connections read into one buffer: bytes that are kept are copied before the next read. */
import { connect, type Socket } from 'node:net'
import type { Target } from './connection.ts'

const shared = Buffer.allocUnsafeSlow(64 * 1024)

/** `onBytes` returns false to pause the socket; the bytes are valid only during the call. */
export const connectTo = (target: Target, onBytes: (bytes: Buffer) => boolean): Socket =>
  connect({
    ...target,
    autoSelectFamily: false,
    noDelay: true,
    onread: { buffer: shared, callback: (count) => onBytes(shared.subarray(0, count)) },
  })
