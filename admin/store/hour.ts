/** Milliseconds. */
export const hour = 3_600_000
/** Milliseconds. */
export const day = 24 * hour

/**
 * The start of the hour of a time, also before 1970.
 *
 * @param time milliseconds since 1970, as the result
 */
export const hourOf = (time: number): number => time - (((time % hour) + hour) % hour)
