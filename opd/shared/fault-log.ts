/**
 * Counts and logs internal errors. Such an error costs a bid its optimisation and nothing else. The first error of each
 * place is logged at once, then at most one a minute with the number of those that were not logged.
 */

import type { Log } from '../base/log.ts'
import { shortId } from './short-id.ts'

/** The consequence of an error, by place. */
const consequences = {
  rewrite: 'the response was sent unmodified',
  pricing: 'the bid kept its price and has no context',
  learner: 'the bid kept its price, or its decision does not train the model',
  bid_log: 'a notice without a context may not be attributed',
  shared_bid_log: 'a notice without a context was looked up on this node alone',
  decision_log: 'a line is missing from the decision log',
  training: 'the model did not learn from a notice',
  standalone: 'a standalone call was refused with status 500',
  agent: 'the bids of an agent call kept their prices',
} as const

export type FaultPlace = keyof typeof consequences
/** All places, in the order of the metric. */
export const faultPlaces = Object.keys(consequences) as FaultPlace[]
export type FaultCounts = Record<FaultPlace, number>

/** Counts of 0 for all places. */
export const noFaults = (): FaultCounts =>
  Object.fromEntries(faultPlaces.map((place) => [place, 0])) as FaultCounts

/** `request`: the id of the bid request, if the fault is one of a bid. */
export type ReportFault = (
  place: FaultPlace,
  error: unknown,
  ssp?: string,
  request?: string,
) => void

/** Milliseconds between two log lines of one place. */
const logInterval = 60_000
const longestTrace = 8
const frame = /^ {4}at (?:.* \()?(?:file:\/\/|node:|\/)[^()]*:\d+:\d+\)?$/

/** The error's class and stack frames. Its message may quote a body, a user id or an address, so it is not logged. */
function safeFields(error: unknown) {
  if (!(error instanceof Error)) return { error: typeof error }
  // The fields of a thrown error may have any type.
  const trace = String(error.stack)
    .replace(String(error.message), () => '')
    .split('\n')
  const frames = trace.filter((line) => frame.test(line)).slice(0, longestTrace)
  return { error: error.constructor?.name, at: frames.map((line) => line.trim()) }
}

/**
 * A function that counts a fault in `counts`, and logs it if that is due.
 *
 * @param now milliseconds since the epoch
 */
export function createFaultLog(counts: FaultCounts, log: Log, now: () => number): ReportFault {
  const last = new Map<FaultPlace, { loggedAt: number; count: number }>()
  return (place, error, ssp, request) => {
    const count = ++counts[place]
    const before = last.get(place)
    const time = now()
    // If the clock was set back, the interval starts again.
    if (before !== undefined && time - before.loggedAt < logInterval && time >= before.loggedAt)
      return
    last.set(place, { loggedAt: time, count })
    const notLogged = before === undefined ? 0 : count - before.count - 1
    const labels = request === undefined ? {} : { request: shortId(request) }
    const fields = { place, ssp, ...labels, notLogged, ...safeFields(error) }
    log.error(fields, `a fault: ${consequences[place]}`)
  }
}
