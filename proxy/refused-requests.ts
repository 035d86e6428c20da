/** The last bid requests that had no response of their supplier, for an operator who asks why. Without bodies, headers and queries. */
import type { Refusal, RequestOutcome } from './metrics.ts'

export interface RefusedRequest {
  /** Milliseconds since the epoch. */
  time: number
  ssp: string
  outcome: RequestOutcome
  /** Of the outcome `refused`. */
  reason: Refusal | null
  /** 0: the caller has no response. */
  status: number
  protocol: string
  durationMs: number
  /** The endpoint of the last attempt; null: it was not sent. */
  endpoint: string | null
}

/** The outcomes of which the last requests are kept. */
const refusedOutcomes = [
  'refused',
  'inactive',
  'qps',
  'overload',
  'slow_request',
  'timeout',
  'upstream_error',
  'unreadable',
] as const satisfies RequestOutcome[]

/** Of each outcome, so that a flood of one does not hide the others. */
const kept = 100

/** The last requests without a response of their supplier. Bounded. */
export class RefusedRequests {
  private readonly rings = new Map(
    refusedOutcomes.map((outcome) => [
      outcome as RequestOutcome,
      { list: [] as RefusedRequest[], next: 0 },
    ]),
  )

  /** @param request is kept; ignored if its outcome is not one of `refusedOutcomes` */
  addRequest(request: RefusedRequest): void {
    const ring = this.rings.get(request.outcome)
    if (ring === undefined) return
    ring.list[ring.next] = request
    ring.next = (ring.next + 1) % kept
  }

  /** In no order. */
  all(): RefusedRequest[] {
    return [...this.rings.values()].flatMap(({ list }) => list)
  }
}
