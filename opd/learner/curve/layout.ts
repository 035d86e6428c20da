/**
 * Where weights lie. All that belong to one value of a key (one publisher, say) lie side by side: a bid touches one line
 * of the cache a key, not one a weight. A block, for the key `placement`:
 *
 *   A Q T F
 *
 * and behind them, where a key has them, the shared ones: usual ln in, shares of savings.
 */
import {
  keyNames,
  type Priors,
  parameterCount,
  parameterNames,
  priors,
  saving,
  stepShares,
  usual,
} from './priors.ts'

/** WeightSums of weights: the parameters, then the shared ones. */
export const [usualSum, savingFirst, savingSecond] = [
  parameterCount,
  parameterCount + 1,
  parameterCount + 2,
] as const
export const sumCount = parameterCount + 3

/** Prior variances by sum; of the parameters what steps may use. */
const priorsBySum: readonly Priors[] = [
  ...parameterNames.map((name) =>
    Object.fromEntries(
      Object.entries(priors[name]).map(([key, prior]) => [key, prior * stepShares[name]]),
    ),
  ),
  usual,
  saving,
  saving,
]

/** The weights of one key: which sum each belongs to, and its prior variance. Those of the parameters come first. */
export const blocks = keyNames.map((key) => {
  const sums = [...priorsBySum.keys()].filter((sum) => priorsBySum[sum]![key] !== undefined)
  return { sums, priors: sums.map((sum) => priorsBySum[sum]![key]!) }
})
const widths = blocks.map(({ sums }) => sums.length)

/** By key, flat: where its block begins below, how many weights it has, those of the parameters, and how it is aligned. */
export const blockFrom = Int32Array.from(blocks, (_each, at) =>
  widths.slice(0, at).reduce((sum, width) => sum + width, 0),
)
export const blockWidth = Int32Array.from(widths)
export const blockHalf = Int32Array.from(
  blocks,
  ({ sums }) => sums.filter((sum) => sum < parameterCount).length,
)
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
