/** A number within bounds; anything else is `otherwise`. */
export const sound = (value: number | undefined, low: number, high: number, otherwise: number) =>
  value !== undefined && value >= low && value <= high ? value : otherwise
