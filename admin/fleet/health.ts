/** The state of an integration at a glance: what is wrong, worst first, and what to do about it. */
import type { Interval } from '../../opd/shared/confidence.ts'
import type { FunnelFigures, SupplierFigures } from './figures.ts'

export const levels = ['bad', 'warn', 'ok', 'none'] as const
/** `none`: no traffic, so nothing is known. */
export type Level = (typeof levels)[number]

export interface Reason {
  /** A sentence without its first capital and its full stop. */
  text: string
  /** What to do, as a sentence; null: the text says it. */
  fix: string | null
}

interface Health {
  level: Level
  /** The worst first. */
  reasons: Reason[]
}

/** What the state depends on besides the figures. */
export interface HealthContext {
  opd: 'on' | 'shadow' | 'off' | 'invalid' | null
  held: boolean
  /** Kept wins and kept spend against their floors. */
  kept: Level
  keptSpend: Level
  /** Locations with nodes whose data center is inactive now. */
  inactive: readonly string[]
  /** Whether any notice of the supplier is known, of the last days or since the start of the nodes; null: not known. */
  noticed: boolean | null
}

/** Outcomes of requests that were sent to the supplier, and of those that bidweir refused itself. */
const sentOutcomes = ['answer', 'no_bid', 'timeout', 'upstream_error'] as const
const failedOutcomes = ['timeout', 'upstream_error'] as const
const refusedOutcomes = ['inactive', 'qps', 'overload', 'unreadable', 'refused'] as const

/** Requests of the last minutes. The shares of no-bids and of failures are those of `sent`, the share of `refused` that of `total`. */
export function requestCounts(requests: Readonly<Record<string, number>>) {
  const sum = (names: readonly string[]) =>
    names.reduce((total, name) => total + (requests[name] ?? 0), 0)
  return {
    total: sum(Object.keys(requests)),
    sent: sum(sentOutcomes),
    failed: sum(failedOutcomes),
    refused: sum(refusedOutcomes),
  }
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

const percent = (share: number) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%`
const count = (value: number) => value.toLocaleString('en')
const guardWords: Readonly<Record<string, string>> = {
  silence: 'win notices have stopped',
  drop: 'fewer wins than at this hour on earlier days',
  kept: 'too few wins are kept',
  cleared: 'wins cleared above the price that was bid',
  number: 'the model returned no number',
}

/** Bids, notices or wins from which their shares say anything. */
const fewest = 20
/** Decided bids of which at least one should have been won and reported. */
const enoughBids = 200

interface Rule {
  applies: (funnel: FunnelFigures, awaited: number, noticed: boolean | null) => boolean
  text: (funnel: FunnelFigures, awaited: number) => string
  fix: string
}

const sumOf = (counts: Readonly<Record<string, number>>, names = Object.keys(counts)) =>
  names.reduce((sum, name) => sum + (counts[name] ?? 0), 0)
const counted = ['attributed', 'unattributed', 'duplicate', 'rejected']
/** The share of the notices with one status, 0 if there are too few. */
function noticeShare({ notices }: FunnelFigures, status: string): number {
  const all = sumOf(notices, counted)
  return all < fewest ? 0 : (notices[status] ?? 0) / all
}
const macroShare = ({ decided, noMacro }: FunnelFigures) => decided / (decided + noMacro)
const badNotices = 0.1

/** From the bid to its money: where OPD earns nothing, or counts what is not so. A new row adds a rule. */
const funnelRules: readonly Rule[] = [
  {
    applies: (funnel) => funnel.decided + funnel.noMacro >= fewest && macroShare(funnel) < 0.5,
    text: (funnel) =>
      funnel.decided === 0
        ? 'no bid contains the macro'
        : `only ${percent(macroShare(funnel))} of the bids contain the macro`,
    fix: 'Ask the supplier to put svc_opd=${SVC_OPD_CONTEXT} into nurl, burl or adm of every bid.',
  },
  {
    applies: (_funnel, awaited, noticed) => awaited >= enoughBids && noticed === false,
    text: (_funnel, awaited) => `no win notice has come for ${count(awaited)} decided bids`,
    fix: 'OPD learns and earns nothing. Check that the platform calls GET /opd/imp for each win.',
  },
  {
    applies: (funnel) => noticeShare(funnel, 'rejected') > badNotices,
    text: (funnel) => `${percent(noticeShare(funnel, 'rejected'))} of the win notices are refused`,
    fix: 'Check that notices carry svc_opd or a token, and the cleared price as a plain number.',
  },
  {
    applies: (funnel) => noticeShare(funnel, 'unattributed') > badNotices,
    text: (funnel) =>
      `${percent(noticeShare(funnel, 'unattributed'))} of the win notices belong to no known decision`,
    fix: 'Check that notices carry svc_opd of the bid, and bid_id as it was in the response.',
  },
  {
    applies: ({ cleared, clearedLow }) => cleared >= fewest && clearedLow > cleared / 2,
    text: ({ cleared, clearedLow }) =>
      `${percent(clearedLow / cleared)} of the wins cleared below half of the price sent`,
    fix: 'Margin may not be real. Check that notices carry a CPM in the currency of the bid.',
  },
]

export function healthOf(
  figures: SupplierFigures | undefined,
  { opd, held, kept, keptSpend, inactive, noticed }: HealthContext,
): Health {
  const bad: Reason[] = []
  const warn: Reason[] = []
  const add = (to: Reason[], text: string, fix: string | null = null) => to.push({ text, fix })
  const at = (name: string) => figures?.requests[name] ?? 0
  const { total, sent, failed: failures } = requestCounts(figures?.requests ?? {})
  const failed = failures / (sent || 1)
  const noneAnswered = sent > 0 && failures === sent
  const share = `${percent(failed)} of the requests sent to the supplier failed`
  if (noneAnswered) add(bad, 'no request was answered in the last minutes')
  else if (failed >= badShare) add(bad, share)
  else if (failed >= warnShare) add(warn, share)
  const endpoints = figures?.endpoints ?? []
  const down = endpoints.filter(({ state }) => state !== 'up')
  if (down.length > 0 && !noneAnswered)
    add(
      warn,
      down.length === endpoints.length
        ? 'every endpoint fails'
        : `${down.length} of ${endpoints.length} endpoints fail`,
    )
  if (total > 0 && at('overload') / total >= warnShare)
    add(warn, `${percent(at('overload') / total)} of requests were refused for overload`)
  if (total > 0 && at('qps') / total >= warnShare)
    add(warn, `${percent(at('qps') / total)} of requests were over the allotment`)
  if (at('inactive') > 0 && inactive.length > 0)
    add(warn, `the data center ${inactive.join(', ')} is inactive`)
  if (opd === 'invalid') add(bad, 'the opd block is not valid: OPD is off')
  for (const [what, level] of [
    ['kept wins are', kept],
    ['kept spend is', keptSpend],
  ] as const)
    if (level === 'bad') add(bad, `${what} below the floor`)
    else if (level === 'warn') add(warn, `${what} probably below the floor`)
  const guards = new Set(
    Object.values(figures?.modes ?? {}).flatMap((mode) => Object.keys(mode.guards)),
  )
  for (const guard of guards)
    if (opd !== 'off' && guardWords[guard] !== undefined) add(warn, `guard: ${guardWords[guard]}`)
  if (figures !== undefined && (opd === 'on' || opd === 'shadow'))
    for (const { applies, text, fix } of funnelRules)
      if (applies(figures.funnel, figures.awaited, noticed))
        add(warn, text(figures.funnel, figures.awaited), fix)
  if (held) add(warn, 'an operator holds the prices at factor 1')
  const level = bad.length > 0 ? 'bad' : warn.length > 0 ? 'warn' : total > 0 ? 'ok' : 'none'
  return {
    level,
    reasons:
      level === 'none'
        ? [{ text: 'no requests in the last minutes', fix: null }]
        : [...bad, ...warn],
  }
}
