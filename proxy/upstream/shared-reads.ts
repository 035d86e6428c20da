/** Connects to an endpoint. All connections read into the shared buffer. */
import { connect, type Socket } from 'node:net'
import { type OnRead, readBuffer } from '../wire/read-buffer.ts'
import type { Target } from './connection.ts'

/** `onRead` returns false to pause the socket. */
export const connectTo = (target: Target, onRead: OnRead<boolean>): Socket =>
  connect({
    ...target,
    autoSelectFamily: false,
    noDelay: true,
    onread: { buffer: readBuffer, callback: (count) => onRead(readBuffer, count) },
  })
