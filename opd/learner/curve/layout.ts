/**
 * The layout of the weights. The weights of one value of a key (such as one publisher) are a block of adjacent slots, so a bid
 * reads one cache line for each key and not one for each weight. A block of the key `placement`:
 *
 *   A Q T F
 *
 * After the parameters follow other weights that a key may have: the usual ln in, and the shares of savings.
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

/** Numbers of the sums of weights: the parameters, then these. */
export const [usualSum, savingFirst, savingSecond] = [
  parameterCount,
  parameterCount + 1,
  parameterCount + 2,
] as const
export const sumCount = parameterCount + 3

/** Prior variances by sum; of the parameters, the part that steps between two fits use. */
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

/** The weights of each key: the sum that each belongs to, and its prior variance. The parameters come first. */
export const blocks = keyNames.map((key) => {
  const sums = [...priorsBySum.keys()].filter((sum) => priorsBySum[sum]![key] !== undefined)
  return { sums, priors: sums.map((sum) => priorsBySum[sum]![key]!) }
})
const widths = blocks.map(({ sums }) => sums.length)

/** By key: the start of its block in `sumOf`, its number of weights, that of its parameters, and its alignment. */
export const blockFrom = Int32Array.from(blocks, (_each, index) =>
  widths.slice(0, index).reduce((sum, width) => sum + width, 0),
)
export const blockWidth = Int32Array.from(widths)
export const blockHalf = Int32Array.from(
  blocks,
  ({ sums }) => sums.filter((sum) => sum < parameterCount).length,
)
export const blockMask = Int32Array.from(widths, (width) => -(2 ** Math.ceil(Math.log2(width))))
/** By weight of all blocks: its sum, and its prior variance. */
export const sumOf = Uint8Array.from(blocks.flatMap(({ sums }) => sums))
export const priorOf = Float64Array.from(blocks.flatMap(({ priors }) => priors))
