/** A number within bounds; anything else is `otherwise`. */
export const sound = (value: number | undefined, low: number, high: number, otherwise: number) =>
  value !== undefined && value >= low && value <= high ? value : otherwise

/** A price that can be trained with, CPM. */
export const isPrice = (price: number) => price >= 1e-9 && price < 1e9
