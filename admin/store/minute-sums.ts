/** What is summed for each supplier and minute. */

export const minute = 60_000
/** Upper bounds in milliseconds of the time that a supplier took; `took_more`: above the last. */
export const tookBounds = [5, 10, 25, 50, 75, 100, 150, 200, 250, 500, 1000] as const
type Took = `took_${(typeof tookBounds)[number] | 'more'}`

/** Money is CPM in the base currency. The last three are those of nodes, in the rows of the supplier ''. */
export const minuteSums = [
  ...(['requests', 'sent', 'failed', 'refused'] as const),
  ...tookBounds.map((bound): Took => `took_${bound}`),
  'took_more',
  ...(['bids', 'wins', 'in_sum', 'out_sum', 'revenue', 'margin'] as const),
  ...(['optimised_bids', 'optimised_wins', 'optimised_spend', 'optimised_squares'] as const),
  ...(['holdout_bids', 'holdout_wins', 'holdout_spend', 'holdout_squares'] as const),
  ...(['starts', 'reloads', 'refits'] as const),
] as const
export type MinuteSum = (typeof minuteSums)[number]
export type MinuteRow = { supplier: string; minute: number } & Record<MinuteSum, number>

export const minuteSumAt = Object.fromEntries(
  minuteSums.map((name, index) => [name, index]),
) as Record<MinuteSum, number>
