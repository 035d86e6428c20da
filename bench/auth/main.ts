/** `npm run bench:auth`: what a token check costs. */
import { tokenCost } from './cost.ts'

const { first, seenBefore } = await tokenCost()
process.stdout.write(
  `first time   ${first.toFixed(1)} us\nseen before  ${seenBefore.toFixed(1)} us\n`,
)
