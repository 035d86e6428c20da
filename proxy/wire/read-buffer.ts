/** Sockets of the fast lane read into one buffer, one after another: bytes that are kept are copied before the next read. */
export const readBuffer = Buffer.allocUnsafeSlow(64 * 1024)

/** Takes what was read: `bytes` up to `count`, which are valid only during the call. */
export type OnRead<Result> = (bytes: Buffer, count: number) => Result
