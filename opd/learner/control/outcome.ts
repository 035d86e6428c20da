/** Which group of the evidence an exposure belongs to. */
import { type Exposure, shareStep } from '../exposure.ts'
import type { Group } from './kept.ts'

/** An exposure, as far as it matters here. */
export type Outcome = Omit<Exposure, 'ticket' | 'supplier' | 'second' | 'lnIn'>

/** ln of a factor above which a bid left at its own price. */
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
