/** Why a request that was taken ends without an answer of its supplier's (CONTRACT 3). */
export type NoBid = 'inactive' | 'qps' | 'unreadable' | 'overload' | 'timeout' | 'upstream_error'

/** With `onFailure: status`; everything else is 204. */
export const statusOf: Readonly<Record<string, number>> = {
  overload: 503,
  timeout: 504,
  upstream_error: 502,
}
