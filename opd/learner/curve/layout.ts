/**
 * Where weights lie. All that belong to one value of a key (one publisher, say) lie side by side: a bid touches one line
 * of the cache a key, not one a weight. A block, for the key `placement`:
 *
 *   A1 B1 T1 F1  A2 B2 T2 F2         of the first expert, of the second
 *
 * and behind them, where a key has them, the shared ones: usual ln in, weight of the second expert, shares of savings.
 */
import {
  experts,
  type Key,
  keyNames,
  mixing,
  type Priors,
  parameterCount,
  parameterNames,
  saving,
  usual,
} from './priors.ts'

/** Sums of weights: a parameter of the first expert, of the second, then the shared ones. */
export const [usualSum, mixSum, savingFirst, savingSecond] = [
  2 * parameterCount,
  2 * parameterCount + 1,
  2 * parameterCount + 2,
  2 * parameterCount + 3,
] as const
export const sumCount = 2 * parameterCount + 4

const shared: [number, Priors][] = [
  [usualSum, usual],
  [mixSum, mixing],
  [savingFirst, saving],
  [savingSecond, saving],
]

/** The weights of one key: which sum each belongs to, and its prior variance. */
interface Block {
  sums: number[]
  priors: number[]
  /** Weights of one expert; those of both come first. */
  half: number
}

function blockOf(key: Key): Block {
  const sums: number[] = []
  const priors: number[] = []
  const add = (sum: number, prior: number | undefined) => {
    if (prior === undefined) return
    sums.push(sum)
    priors.push(prior)
  }
  experts.forEach((expert, e) => {
    parameterNames.forEach((name, p) => {
      add(e * parameterCount + p, expert[name][key])
    })
  })
  const half = sums.length / 2
  for (const [sum, priorsOf] of shared) add(sum, priorsOf[key])
  return { sums, priors, half }
}

export const blocks: readonly Block[] = keyNames.map(blockOf)
const widths = blocks.map(({ sums }) => sums.length)

/** By key, flat: where its block begins below, how many weights it has, those of one expert, and how it is aligned. */
export const blockFrom = Int32Array.from(blocks, (_each, at) =>
  widths.slice(0, at).reduce((sum, width) => sum + width, 0),
)
export const blockWidth = Int32Array.from(widths)
export const blockHalf = Int32Array.from(blocks, ({ half }) => half)
export const blockMask = Int32Array.from(widths, (width) => -(2 ** Math.ceil(Math.log2(width))))
/** By weight. */
export const sumOf = Uint8Array.from(blocks.flatMap(({ sums }) => sums))
export const priorOf = Float64Array.from(blocks.flatMap(({ priors }) => priors))

/** Where the weights of a sum lie: key, place in its block; flat. */
export const placesOf: readonly Int32Array[] = Array.from({ length: sumCount }, (_each, sum) =>
  Int32Array.from(
    blocks.flatMap(({ sums }, key) => {
      const at = sums.indexOf(sum)
      return at < 0 ? [] : [key, at]
    }),
  ),
)
