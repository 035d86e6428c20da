/** How much is explored, and where: a fit that has nothing to go by needs spread prices. */

/** Of the usual share, at first and at last; bids by which it falls; and the most explored, if not more is usual. */
const [first, last, bids, most] = [20, 0.25, 25_000, 0.1]
const young = 1200

/** Most of a day's exploration is at its start, and about `usual` is explored over a day of 150,000 bids. */
export const explorationRate = (usual: number, age: number): number =>
  Math.min(Math.max(most, usual), usual * Math.min(first, last + bids / (age + young)))

/** Early exploration is spread over all prices, later half of it is near the price that would have been chosen. */
export const nearShare = (age: number): number => (age < bids ? 0 : 0.5)
