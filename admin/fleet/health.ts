/** The state of an integration at a glance: what is wrong, worst first. */
import type { Interval } from '../../opd/shared/confidence.ts'
import type { SupplierFigures } from './figures.ts'

/** `none`: no traffic, so nothing is known. */
export type Level = 'bad' | 'warn' | 'ok' | 'none'

interface Health {
  level: Level
  /** Sentences, the worst first. */
  reasons: string[]
}

/** What the state depends on besides the figures. */
export interface HealthContext {
  opd: 'on' | 'shadow' | 'off' | 'invalid' | null
  held: boolean
  /** Kept wins and kept spend against their floors. */
  kept: Level
  keptSpend: Level
}

/** Shares of requests from which failures are a warning, and a fault. */
const warnShare = 0.02
const badShare = 0.2

/** `bad`: the whole interval is below the floor; `warn`: the estimate is; `ok`: it is at the floor or above. */
export function keptLevel(kept: Interval | null, floor: number | null): Level {
  if (kept === null || floor === null || floor === 0) return 'none'
  if (kept.upper < floor) return 'bad'
  return kept.at >= floor ? 'ok' : 'warn'
}

const percent = (share: number) => `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}%`
const guardWords: Readonly<Record<string, string>> = {
  silence: 'win notices have stopped',
  drop: 'fewer wins than at this hour on earlier days',
  kept: 'too few wins are kept',
  cleared: 'wins cleared above the price that was bid',
  number: 'the model returned no number',
}

export function healthOf(
  figures: SupplierFigures | undefined,
  { opd, held, kept, keptSpend }: HealthContext,
): Health {
  const bad: string[] = []
  const warn: string[] = []
  const at = (name: string) => figures?.requests[name] ?? 0
  const total = Object.values(figures?.requests ?? {}).reduce((sum, count) => sum + count, 0)
  const sent = at('answer') + at('no_bid') + at('timeout') + at('upstream_error')
  const failed = (at('timeout') + at('upstream_error')) / (sent || 1)
  const noneAnswered = sent > 0 && at('answer') + at('no_bid') === 0
  const share = `${percent(failed)} of the requests sent to the supplier failed`
  if (noneAnswered) bad.push('no request was answered in the last minutes')
  else if (failed >= badShare) bad.push(share)
  else if (failed >= warnShare) warn.push(share)
  const endpoints = figures?.endpoints ?? []
  const down = endpoints.filter(({ state }) => state !== 'up')
  if (down.length > 0 && !noneAnswered)
    warn.push(
      down.length === endpoints.length
        ? 'every endpoint fails'
        : `${down.length} of ${endpoints.length} endpoints fail`,
    )
  if (total > 0 && at('overload') / total >= warnShare)
    warn.push(`${percent(at('overload') / total)} of requests were refused for overload`)
  if (total > 0 && at('qps') / total >= warnShare)
    warn.push(`${percent(at('qps') / total)} of requests were over the allotment`)
  if (at('inactive') > 0) warn.push('the data center is inactive')
  if (opd === 'invalid') bad.push('the opd block is not valid: OPD is off')
  for (const [what, level] of [
    ['kept wins are', kept],
    ['kept spend is', keptSpend],
  ] as const)
    if (level === 'bad') bad.push(`${what} below the floor`)
    else if (level === 'warn') warn.push(`${what} below the floor, but not certainly`)
  const guards = new Set(
    Object.values(figures?.modes ?? {}).flatMap((mode) => Object.keys(mode.guards)),
  )
  for (const guard of guards)
    if (opd !== 'off' && guardWords[guard] !== undefined) warn.push(`guard: ${guardWords[guard]}`)
  if (held) warn.push('an operator holds the prices at factor 1')
  const level = bad.length > 0 ? 'bad' : warn.length > 0 ? 'warn' : total > 0 ? 'ok' : 'none'
  return {
    level,
    reasons: level === 'none' ? ['no requests in the last minutes'] : [...bad, ...warn],
  }
}
