/** What settled rows say of the curve, at one price or more. */
import type { Rows } from './rows.ts'

/** One observation of W0: the row, the logarithm of a price, and whether it wins. */
export interface Observations {
  row: Int32Array
  lnPrice: Float64Array
  won: Uint8Array
}

/**
 * The sent price of every row. Of suppliers that say the lowest winning price also the bid's own and one in between: a win
 * wins there as well, a loss says whether it would have.
 */
export function observationsOf(rows: Rows): Observations {
  const row: number[] = []
  const lnPrice: number[] = []
  const won: number[] = []
  const add = (n: number, ln: number, wins: number) => {
    row.push(n)
    lnPrice.push(ln)
    won.push(wins)
  }
  const says = new Set(
    rows.supplier.subarray(0, rows.count).filter((_each, n) => !Number.isNaN(rows.lnLeast[n]!)),
  )
  for (let n = 0; n < rows.count; n++) {
    const [ln, lnIn, least, wins] = [
      rows.lnPrice[n]!,
      rows.lnIn[n]!,
      rows.lnLeast[n]!,
      rows.won[n]!,
    ]
    add(n, ln, wins)
    if (!says.has(rows.supplier[n]!) || (wins === 0 && Number.isNaN(least))) continue
    for (const price of [lnIn, ln + (lnIn - ln) * ((n * 0.618034) % 1)])
      if (price > ln) add(n, price, wins === 1 || price >= least ? 1 : 0)
  }
  return {
    row: Int32Array.from(row),
    lnPrice: Float64Array.from(lnPrice),
    won: Uint8Array.from(won),
  }
}
