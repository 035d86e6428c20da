/** A request that was taken and ends without an answer of its supplier's (CONTRACT 3). */
import type { Reply } from '../listen/types.ts'

export type NoBid = 'inactive' | 'qps' | 'unreadable' | 'overload' | 'timeout' | 'upstream_error'

/** With `onFailure: status`; everything else is 204. */
const statusOf: Readonly<Record<string, number>> = {
  overload: 503,
  timeout: 504,
  upstream_error: 502,
}

export function replyNoBid(reply: Reply, reason: NoBid, onFailure: 'no-bid' | 'status'): void {
  if (!reply.open) return
  const status = onFailure === 'status' ? (statusOf[reason] ?? 204) : 204
  const headers = ['x-bidweir-reason', reason]
  if (status !== 204) headers.push('Content-Length', '0')
  reply.whole(status, '', headers, null)
}
