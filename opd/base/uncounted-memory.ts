/**
 * Memory that the garbage collector does not count. V8 adds the bytes of each `ArrayBuffer` to those after which it collects all
 * objects: a store that grows by 230 bytes a bid would start a full collection every 40,000 bids. Bytes of a `SharedArrayBuffer`
 * do not count. So memory that is no longer needed may stay in use for long: whoever asks for it keeps it, and uses it again.
 *
 * @param bytes all of them zero
 */
export const uncountedMemory = (bytes: number): Uint8Array =>
  new Uint8Array(new SharedArrayBuffer(bytes))
