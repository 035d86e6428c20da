/**
 * Decided bids, counted by hour, supplier, mode, arm, via and facets until they are handed on. All facets of a bid are counted
 * at once, by the object that its supplier's bids with these facets share.
 */
import type { DecisionObserver } from '../../opd/ports.ts'
import { summable } from '../../opd/pricing/stats.ts'
import { type Facets, facetNames } from '../../opd/shared/facets.ts'
import { hourOf } from './hour.ts'
import { type DecidedRow, type OfFacet, storable } from './tables.ts'

/** The bids with some facets. */
export type FacetsRow = Omit<DecidedRow, 'publisher' | 'domain'> & { facets: Facets }

interface DecidedFacets extends DecisionObserver {
  /** Takes all rows, and hands on some of them at each step. */
  drain(): Generator<undefined, void>
}

/** Combinations of facets that are counted between two drains, 25 MB; those of more bids count as not known. */
const maxFacets = 100_000
/** Of one step. */
const facetsAtOnce = 100

/** `add` takes ownership of a row. It may get several with one key. */
export function createDecidedFacets(add: (row: FacetsRow) => void): DecidedFacets {
  // Facets of different suppliers and hours are different objects.
  let counted = new Map<Facets, FacetsRow[]>()
  function* handOn(taken: Iterable<FacetsRow[]>): Generator<undefined, void> {
    let left = facetsAtOnce
    for (const rows of taken) {
      for (const row of rows) add(row)
      if (--left > 0) continue
      left = facetsAtOnce
      yield
    }
  }

  return {
    drain() {
      const taken = counted
      counted = new Map()
      return handOn(taken.values())
    },
    decided({ arm, via, mode, at, supplier, facets }, inBa, outBa) {
      if (facets === undefined || arm === 'test') return
      let rows = counted.get(facets)
      if (rows === undefined) {
        if (counted.size >= maxFacets) return
        rows = []
        counted.set(facets, rows)
      }
      let row = rows.find((each) => each.arm === arm && each.via === via && each.mode === mode)
      if (row === undefined) {
        const hour = hourOf(at)
        row = { hour, supplier, mode, arm, via, facets, bids: 0, in_sum: 0, out_sum: 0 }
        rows.push(row)
      }
      row.bids++
      row.in_sum += summable(inBa)
      row.out_sum += summable(outBa)
    },
  }
}

/** A row for each facet that is known. */
export const ofEachFacet = <Row extends object>(row: Row, facets: Facets) =>
  facetNames
    .filter((dimension) => facets[dimension] !== '')
    .map((dimension): Row & Pick<OfFacet<DecidedRow>, 'dimension' | 'value'> => ({
      ...row,
      dimension,
      value: storable(facets[dimension]),
    }))
