/**
 * Exceptions of our own code that cost a bid its optimisation and nothing else: counted by place, and logged. The first
 * of each place is logged at once, then at most one a minute with the number of those left out.
 */
import type { Log } from '../ports.ts'

/** What each place costs when it fails. */
const consequences = {
  rewrite: 'the answer went out as it came',
  pricing: 'the bid kept its price and has no context',
  learner: 'the bid kept its price, or its decision teaches nothing',
  bid_log: 'a notice without a context may not find the decision',
  shared_bid_log: 'a notice without a context was looked up on this node alone',
  decision_log: 'a line is missing from the decision log',
  training: 'the model did not learn from a notice',
  standalone: 'a standalone call was refused with status 500',
} as const

export type FaultPlace = keyof typeof consequences
export const faultPlaces = Object.keys(consequences) as FaultPlace[]
export type FaultCounts = Record<FaultPlace, number>

export const noFaults = (): FaultCounts =>
  Object.fromEntries(faultPlaces.map((place) => [place, 0])) as FaultCounts

export type NoteFault = (place: FaultPlace, error: unknown, ssp?: string) => void

/** Milliseconds. */
const quietFor = 60_000
const longestTrace = 8
const frame = /^ {4}at (?:.* \()?(?:file:\/\/|node:|\/)[^()]*:\d+:\d+\)?$/

/**
 * The error's class and the places in the code that it passed. Its message may quote a body, a user id or an address, so
 * it stays out of the log.
 */
function safeFields(error: unknown) {
  if (!(error instanceof Error)) return { error: typeof error }
  // Anything may be thrown, an error whose fields have other types too.
  const trace = String(error.stack)
    .replace(String(error.message), () => '')
    .split('\n')
  const at = trace.filter((line) => frame.test(line)).slice(0, longestTrace)
  return { error: error.constructor?.name, at: at.map((line) => line.trim()) }
}

export function createFaultLog(counts: FaultCounts, log: Log, now: () => number): NoteFault {
  const last = new Map<FaultPlace, { at: number; count: number }>()
  return (place, error, ssp) => {
    const count = ++counts[place]
    const before = last.get(place)
    const at = now()
    // A clock that was set back must not silence a place for longer.
    if (before !== undefined && at - before.at < quietFor && at >= before.at) return
    last.set(place, { at, count })
    const leftOut = before === undefined ? 0 : count - before.count - 1
    log.error({ place, ssp, leftOut, ...safeFields(error) }, `a fault: ${consequences[place]}`)
  }
}
