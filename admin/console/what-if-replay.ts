/**
 * What other settings would have done with the bids of the last days: the decision log is replayed once with the settings of now
 * and once with others. Runs on a thread of its own, within limits of bids and of time.
 */
import { Replay } from '../../opd/replay/replay.ts'
import type { ReplayPolicy } from '../../opd/replay/replica.ts'
import type { IntegrationReport } from '../../opd/replay/report.ts'
import { logFiles, readLogs } from '../../opd/state/log-reader.ts'

/** What can be tried. */
export interface TriedSettings {
  min_factor: number
  min_win_rate: number
  min_spend: number
  share: number
}

export interface WhatIfJob {
  /** Files and folders of the decision log of this node. */
  logs: readonly string[]
  ssp: string
  policy: ReplayPolicy
  /** Milliseconds. */
  attributionWindow: number
  /** Milliseconds since the epoch. */
  from: number
  now: TriedSettings
  tried: TriedSettings
  /** Most bids, and most milliseconds. */
  limits: { bids: number; ms: number }
}

/** `value` with its 95 % interval is estimated from randomized bids; null: unknown. `expected`: what the model expects. */
export interface WhatIfFigure {
  expected: number | null
  value: number | null
  low: number | null
  high: number | null
}

export interface WhatIfOutcome {
  settings: TriedSettings
  /** CPM of all bids of the time, also of those that are not priced. */
  margin: WhatIfFigure
  kept_wins: WhatIfFigure
  kept_spend: WhatIfFigure
  win_rate: WhatIfFigure
  mean_factor: number | null
  verified: boolean
  why: string[]
}

export interface WhatIfAnswer {
  /** Of the first and the last bid, milliseconds since the epoch; null: none. */
  from: number | null
  to: number | null
  bids: number
  wins: number
  /** A limit was reached: later bids were not read. */
  cut: boolean
  now: WhatIfOutcome | null
  tried: WhatIfOutcome | null
}

/** Bids between two looks at the clock. */
const lookEvery = 1000

function policyWith({ policy, ...rest }: ReplayPolicy, settings: TriedSettings): ReplayPolicy {
  const { min_factor, min_win_rate, min_spend } = settings
  const changed = { minFactor: min_factor, minWinRate: min_win_rate, minSpend: min_spend }
  return { ...rest, policy: { ...policy, ...changed } }
}

type Name = 'win_rate' | 'kept_wins' | 'kept_spend' | 'margin_per_bid'

/** `scale`: the figure of all bids is this many times that of a priced bid, beyond `base`. */
function figure(report: IntegrationReport, name: Name, scale = 1, base = 0): WhatIfFigure {
  const scaled = (value: number) => base + scale * value
  const expected = report.model[name]
  const estimate = report.doubly_robust?.[name] ?? null
  return {
    expected: expected === null ? null : scaled(expected),
    value: estimate && scaled(estimate.value),
    low: estimate && scaled(estimate.low),
    high: estimate && scaled(estimate.high),
  }
}

/** Auctions are drawn for `share`, so what is kept of all bids is 1 for those that are not priced. */
function outcomeOf(report: IntegrationReport, settings: TriedSettings): WhatIfOutcome {
  const { share } = settings
  return {
    settings,
    margin: figure(report, 'margin_per_bid', report.bids * share),
    kept_wins: figure(report, 'kept_wins', share, 1 - share),
    kept_spend: figure(report, 'kept_spend', share, 1 - share),
    win_rate: figure(report, 'win_rate'),
    mean_factor: report.model.mean_factor,
    verified: report.status === 'verified',
    why: report.why,
  }
}

export async function whatIf(job: WhatIfJob): Promise<WhatIfAnswer> {
  const { ssp, policy, attributionWindow, from, limits } = job
  const began = performance.now()
  const replays = [job.now, job.tried].map((settings) => {
    const asked = policyWith(policy, settings)
    return new Replay({ attributionWindow, policyOf: () => asked, maxPending: limits.bids })
  })
  let [bids, cut] = [0, false]
  /** Of the bids of the supplier: lines of wins do not name it. */
  const known = new Set<string>()
  for await (const { line } of readLogs(await logFiles(job.logs))) {
    if (line.kind === 'bad' || line.time < from) continue
    if (line.kind !== 'decision') {
      if (!known.has(line.id)) continue
    } else {
      if (line.ssp !== ssp) continue
      known.add(line.id)
      bids++
      const isLate = bids % lookEvery === 0 && performance.now() - began > limits.ms
      cut = bids > limits.bids || isLate
      if (cut) break
    }
    for (const replay of replays) replay.feed(line)
  }
  const [now, tried] = replays.map((replay) => replay.report())
  const { counts, integrations } = now!
  const [ofNow, ofTried] = [integrations[0], tried!.integrations[0]]
  return {
    ...{ from: counts.from, to: counts.to, bids: ofNow?.bids ?? 0, wins: ofNow?.wins ?? 0, cut },
    now: ofNow === undefined ? null : outcomeOf(ofNow, job.now),
    tried: ofTried === undefined ? null : outcomeOf(ofTried, job.tried),
  }
}
