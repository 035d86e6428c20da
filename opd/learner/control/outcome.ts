/** An exposure as evidence: which group it belongs to, and what was expected of it. */
import { shareStep } from '../exposure.ts'
import type { Group, Seen } from './kept.ts'

/** An exposure, as far as it matters here. */
export interface Outcome {
  arm: 'holdout' | 'explored' | 'treated'
  raised: boolean
  lnF: number
  inBa: number
  sent: number
  winIn: number
  winOut: number
  weight: number
  /** Milliseconds. */
  at: number
}

const own = -1e-3
/**
 * What an exposure is evidence of. One held up by shadow, hold or share went out at another price than was decided: it is
 * evidence of nothing.
 */
export function groupOf({ arm, raised, lnF, winIn, winOut }: Outcome): Group | null {
  if (arm === 'holdout') return 'held'
  if (lnF >= own && winOut < winIn - 2 * shareStep) return null
  return arm === 'explored' ? 'explored' : raised ? 'raised' : 'usual'
}

export const seenOf = ({ arm, inBa, sent, winIn, winOut, weight }: Outcome): Seen => ({
  inBa,
  sent,
  winIn,
  winSent: arm === 'holdout' ? winIn : winOut,
  weight,
})
