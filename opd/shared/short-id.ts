/** Characters of an id that are kept. */
const longestId = 64

/**
 * The id of a bid request for logs and spans. It names an auction, not a user.
 *
 * @param id - the id as the request has it, of any length
 */
export const shortId = (id: string): string => id.slice(0, longestId)
