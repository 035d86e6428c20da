/** The markets on which kept wins and spend are measured. */
import type { MarketOf } from '../market.ts'
import { replay } from './replay.ts'
import { readRows, recorded } from './rows.ts'
import { synthetic } from './synthetic.ts'
import { chasing, heavyTailed } from './unruly.ts'
import { ladder, pacing } from './unseen.ts'

const dataAt = process.argv.indexOf('--data')
/** Rows of a folder; those of the first half in time are tuned on and never measured here. */
const recordings = dataAt < 0 ? [] : [...readRows(process.argv[dataAt + 1]!)]
export const keptMarkets: { market: string; of: MarketOf; atLeast: number }[] = [
  { market: 'synthetic', of: synthetic, atLeast: 0.7 },
  { market: 'heavy tails', of: heavyTailed, atLeast: 0.7 },
  { market: 'chasing reserves', of: chasing, atLeast: 0.7 },
  { market: 'pacing', of: pacing, atLeast: 0.7 },
  { market: 'ladder', of: ladder, atLeast: 0.6 },
  { market: 'replay', of: replay, atLeast: 0.6 },
  ...recordings.map(([advertiser, rows]) => ({
    market: `recorded ${advertiser}`,
    of: (seed: number) => recorded(rows, seed),
    atLeast: 0.6,
  })),
]
