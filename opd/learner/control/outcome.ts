/** An exposure as evidence: which group it belongs to, and what was expected of it. */
import type { Group, Seen } from './kept.ts'

/** An exposure, as far as it matters here. */
export interface Outcome {
  arm: 'holdout' | 'explored' | 'treated'
  raised: boolean
  lnF: number
  lnIn: number
  sent: number
  winIn: number
  winOut: number
  /** Milliseconds. */
  at: number
}

const flat = -1e-3
/** Chances travel in 16 bits. */
export const shareStep = 1 / 65_535
/**
 * What an exposure is evidence of. The holdout's `winOut` is of the price it would have had. One held up by shadow, hold
 * or share went out at another price than was decided: it is evidence of nothing.
 */
export function groupOf({ arm, raised, lnF, winIn, winOut }: Outcome): Group | null {
  const lower = winOut < winIn - 2 * shareStep
  if (arm === 'holdout') return lower ? 'heldDeep' : 'heldFlat'
  if (lnF < flat) return arm === 'explored' ? 'explored' : raised ? 'raisedDeep' : 'deep'
  return lower ? null : raised ? 'raisedFlat' : 'flat'
}

export const seenOf = ({ arm, lnIn, sent, winIn, winOut }: Outcome): Seen => ({
  inBa: Math.exp(lnIn),
  sent,
  winIn,
  winSent: arm === 'holdout' ? winIn : winOut,
})
