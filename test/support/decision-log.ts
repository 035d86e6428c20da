/** Decision logs of a market whose win curve is known: what a policy would really have won can be said. */
import type { DecisionLine, LogLine, WinLine } from '../../opd/replay/line.ts'
import { source } from './random.ts'

export interface Market {
  bids: number
  seed?: number
  ssp?: string
  /** The policy that logged. */
  explore?: number
  holdout?: number
  factor?: number
  low?: number
  shadow?: boolean
  start?: number
  /** Second price: clears at this share of in_ba. */
  clears?: number
}

/** The true chance to win at factor `f`. */
export const chance = (f: number) => 0.05 + 0.7 / (1 + Math.exp(-9 * (f - 0.8)))

function armOf({ explore = 0.2, holdout = 0.1, shadow = false }: Market, random: () => number) {
  if (shadow) return { arm: 'shadow', propensity: 1 } as const
  if (random() < holdout) return { arm: 'holdout', propensity: holdout } as const
  return random() < explore
    ? ({ arm: 'explored', propensity: (1 - holdout) * explore } as const)
    : ({ arm: 'treated', propensity: (1 - holdout) * (1 - explore) } as const)
}

/** Decisions every 10 ms, their wins 2 s later, in time order. */
export function* marketLines(market: Market): Generator<LogLine> {
  const { bids, seed = 1, ssp = 'acme', factor = 0.9, low = 0.7, start = 1.8e12 } = market
  const random = source(seed)
  const due: WinLine[] = []
  for (let n = 0; n < bids; n++) {
    const time = start + n * 10
    while (due.length > 0 && due[0]!.time <= time) yield due.shift()!
    const { arm, propensity } = armOf(market, random)
    const inBa = 1 + Math.round(random() * 300) / 100
    const f = arm === 'explored' ? low + random() * (1 - low) : arm === 'treated' ? factor : 1
    const decision: DecisionLine = {
      kind: 'decision',
      time,
      id: `${ssp}-${n}`,
      ssp,
      mode: 'revenue',
      arm,
      propensity,
      density: arm === 'explored' ? 1 / (1 - low) : null,
      in: inBa,
      floor: 0.1,
      out: inBa * f,
      low,
      features: { publisher: `p${n % 5}`, ...(market.clears === undefined ? {} : { auction: 2 }) },
    }
    yield decision
    const cleared = Math.min(inBa * f, inBa * (market.clears ?? 1))
    if (random() < chance(f)) due.push({ kind: 'win', time: time + 2000, id: decision.id, cleared })
  }
  yield* due
}

/** The same as the service writes it. */
export function spelled(line: LogLine): string {
  if (line.kind === 'bad') return 'not JSON'
  const { kind, ...fields } = line
  return JSON.stringify(
    kind === 'decision' ? fields : { ...fields, [kind === 'win' ? 'won' : kind]: true },
  )
}
