/** The response to the caller: a no-bid of bidweir, or the supplier's response (CONTRACT 3, 4.6). */
import type { Reply, ResponseHead } from '../types.ts'
import { framing, ofChangedBody, ofDecodedBody, towardsCaller } from '../wire/headers.ts'
import { OutgoingResponse } from '../wire/outgoing-heads.ts'

/** Why bidweir sends a no-bid of its own. */
export type NoBid = 'inactive' | 'qps' | 'unreadable' | 'overload' | 'timeout' | 'upstream_error'

/** With `onFailure: status`; every other reason is 204. */
const failureStatus: Readonly<Record<string, number>> = {
  overload: 503,
  timeout: 504,
  upstream_error: 502,
}

/** The head of each no-bid; a request has no part in it. */
const noBidHeads = new Map<string, OutgoingResponse>()

function noBidHead(reason: NoBid, onFailure: 'no-bid' | 'status'): OutgoingResponse {
  const status = onFailure === 'status' ? (failureStatus[reason] ?? 204) : 204
  const key = `${reason} ${status}`
  let head = noBidHeads.get(key)
  if (head === undefined) {
    head = new OutgoingResponse(status, '', ['x-bidweir-reason', reason])
    noBidHeads.set(key, head)
  }
  return head
}

/** Returns the status. */
export function replyNoBid(reply: Reply, reason: NoBid, onFailure: 'no-bid' | 'status'): number {
  const head = noBidHead(reason, onFailure)
  if (reply.open) reply.sendWhole(head, head.status === 204 ? null : 0, null)
  return head.status
}

export type ResponseBody =
  | { kind: 'unchanged'; body: Buffer }
  /** `body`: bytes, or latin1 text. `decoded`: it is sent without its content encoding. */
  | { kind: 'changed'; body: Buffer | string; decoded: boolean }

/** One for each set of names that are dropped. */
const mostReplies = 3

/** The head for the caller, without the names that are `dropped`. It is made once while suppliers repeat their head. */
export function towards(
  head: ResponseHead,
  dropped: ReadonlySet<string>,
  via: string | null,
): OutgoingResponse {
  const { replies } = head
  for (let index = 0; index < replies.length; index++) {
    const made = replies[index]!
    if (made.dropped === dropped && made.via === via) return made.head
  }
  const fields = towardsCaller(head.fields, dropped, via)
  const made = new OutgoingResponse(head.status, head.message, fields)
  // A reload may have changed `via`.
  if (replies.length === mostReplies) replies.length = 0
  replies.push({ head: made, dropped, via })
  return made
}

/** Sends a supplier's whole response to the caller. `length`: its Content-Length as received. */
export function replyWhole(
  reply: Reply,
  head: ResponseHead,
  length: number | null,
  response: ResponseBody,
  via: string | null,
): void {
  if (!reply.open) return
  if (head.status === 204) return reply.sendWhole(towards(head, framing, via), null, null)
  if (head.status === 304) return reply.sendWhole(towards(head, framing, via), length, null)
  const { body } = response
  reply.sendWhole(towards(head, droppedWith(response), via), body.length, body)
}

function droppedWith(response: ResponseBody): ReadonlySet<string> {
  if (response.kind === 'unchanged') return framing
  return response.decoded ? ofDecodedBody : ofChangedBody
}
