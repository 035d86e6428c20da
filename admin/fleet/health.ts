/** The state of an integration at a glance: what is wrong, worst first, and what to do about it. */
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { Interval } from '../../opd/shared/confidence.ts'
import type { SupplierFigures } from './figures.ts'
import { funnelFaults } from './funnel.ts'
import { percent, type Reason } from './words.ts'

export const levels = ['bad', 'warn', 'ok', 'none'] as const
/** `none`: neither requests nor calls for prices, so nothing is known. */
export type Level = (typeof levels)[number]

interface Health {
  level: Level
  /** The worst first. */
  reasons: (Reason & { level: Level })[]
}

/** What the state depends on besides the figures. */
export interface HealthContext {
  opd: 'on' | 'shadow' | 'off' | 'invalid' | null
  held: boolean
  /** A guard lowers no price, since none of its money can be checked. */
  unchecked: boolean
  /** Kept wins and kept spend against their floors. */
  kept: Level
  keptSpend: Level
  /** Locations with nodes whose data center is inactive now. */
  inactive: readonly string[]
  /** Whether any notice of the supplier is known, of the last days or since the start of the nodes; null: not known. */
  noticed: boolean | null
}

/** Outcomes of requests that were sent to the supplier, of those without a whole response, and of those that bidweir refused itself. */
export const outcomesOf = {
  sent: ['answer', 'no_bid', 'timeout', 'upstream_error'],
  failed: ['timeout', 'upstream_error'],
  refused: ['inactive', 'qps', 'overload', 'unreadable', 'refused'],
} as const

const countedIn = new Map<string, (keyof typeof outcomesOf)[]>()
for (const group of ['sent', 'failed', 'refused'] as const)
  for (const outcome of outcomesOf[group]) getOrAdd(countedIn, outcome, () => []).push(group)

/** Requests of the last minutes. The shares of no-bids and of failures are those of `sent`, the share of `refused` that of `total`. */
export function requestCounts(requests: Readonly<Record<string, number>>) {
  const counts = { total: 0, sent: 0, failed: 0, refused: 0 }
  for (const outcome of Object.keys(requests)) {
    counts.total += requests[outcome]!
    for (const group of countedIn.get(outcome) ?? []) counts[group] += requests[outcome]!
  }
  return counts
}

/** Shares of requests from which failures are a warning, and a fault. */
const warnShare = 0.02
const badShare = 0.2

/** The widest interval that says anything. If it is wider, too few wins are known. */
const widest = 1
export const isKnown = ({ lower, upper }: Interval): boolean => upper - lower <= widest

/**
 * `bad`: the whole interval is below the floor; `warn`: it is probably below, so that an estimate which wavers around the
 * floor is no warning.
 */
export function keptLevel(kept: Interval | null, floor: number | null): Level {
  if (kept === null || floor === null || floor === 0 || !isKnown(kept)) return 'none'
  if (kept.upper < floor) return 'bad'
  return (kept.at + kept.upper) / 2 >= floor ? 'ok' : 'warn'
}

const guardWords: Readonly<Record<string, string>> = {
  silence: 'no win notices come',
  drop: 'fewer wins for each bid than in the hours before',
  kept: 'too few wins are kept',
  cleared: 'wins cleared above the price that was bid, or far below it',
  number: 'the model returned no number',
}

export function healthOf(
  figures: SupplierFigures | undefined,
  { opd, held, unchecked, kept, keptSpend, inactive, noticed }: HealthContext,
): Health {
  const bad: Reason[] = []
  const warn: Reason[] = []
  const add = (to: Reason[], rule: string, text: string, fix: string | null = null) =>
    to.push({ rule, text, fix })
  const requestsOf = (name: string) => figures?.requests[name] ?? 0
  const { total, sent, failed: failures } = requestCounts(figures?.requests ?? {})
  const failed = failures / (sent || 1)
  const noneAnswered = sent > 0 && failures === sent
  const share = `${percent(failed)} of the requests sent to the supplier failed`
  const endpoints = figures?.endpoints ?? []
  const down = endpoints.filter(({ state }) => state !== 'up')
  const cause = down.find(({ reason }) => reason !== undefined)?.reason
  const why = cause === undefined ? '' : `: ${cause}`
  // what costs money comes before what slows
  if (figures !== undefined && (opd === 'on' || opd === 'shadow'))
    for (const { rule, text, fix } of funnelFaults(figures, noticed)) add(warn, rule, text, fix)
  if (noneAnswered) add(bad, 'no_answer', `no request was answered in the last minutes${why}`)
  else if (failed >= badShare) add(bad, 'failed', share)
  else if (failed >= warnShare) add(warn, 'failed', share)
  if (down.length > 0 && !noneAnswered)
    add(
      warn,
      'endpoints',
      down.length === endpoints.length
        ? `every endpoint fails${why}`
        : `${down.length} of ${endpoints.length} endpoints fail${why}`,
    )
  if (total > 0 && requestsOf('overload') / total >= warnShare)
    add(
      warn,
      'overload',
      `${percent(requestsOf('overload') / total)} of requests were refused for overload`,
    )
  if (total > 0 && requestsOf('qps') / total >= warnShare)
    add(warn, 'qps', `${percent(requestsOf('qps') / total)} of requests were over the allotment`)
  if (requestsOf('inactive') > 0 && inactive.length > 0)
    add(warn, 'inactive', `the data center ${inactive.join(', ')} is inactive`)
  if (opd === 'invalid') add(bad, 'opd_invalid', 'the opd block is not valid: OPD is off')
  for (const [rule, what, level] of [
    ['kept_wins', 'kept wins are', kept],
    ['kept_spend', 'kept spend is', keptSpend],
  ] as const)
    if (level === 'bad') add(bad, rule, `${what} below the floor`)
    else if (level === 'warn') add(warn, rule, `${what} probably below the floor`)
  const guards = new Set(
    Object.values(figures?.modes ?? {}).flatMap((mode) => Object.keys(mode.guards)),
  )
  for (const name of guards)
    if (opd !== 'off' && guardWords[name] !== undefined)
      add(warn, `guard_${name}`, `guard: ${guardWords[name]}`)
  if (unchecked && opd === 'on')
    add(warn, 'guard_unchecked', 'guard: no price is lowered, since the wins cannot be checked')
  if (held) add(warn, 'held', 'an operator holds the prices at factor 1')
  // bids of standalone and agent calls come without requests
  const { decided, noMacro, left } = figures?.funnel ?? { decided: 0, noMacro: 0, left: 0 }
  const isUsed = total + decided + noMacro + left > 0
  const level = bad.length > 0 ? 'bad' : warn.length > 0 ? 'warn' : isUsed ? 'ok' : 'none'
  if (level === 'none')
    return {
      level,
      reasons: [
        {
          rule: 'no_requests',
          level,
          text: 'no requests and no calls in the last minutes',
          fix: null,
        },
      ],
    }
  return {
    level,
    reasons: [
      ...bad.map((reason) => ({ ...reason, level: 'bad' as const })),
      ...warn.map((reason) => ({ ...reason, level: 'warn' as const })),
    ],
  }
}
