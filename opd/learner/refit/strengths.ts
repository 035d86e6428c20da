/**
 * Chooses for each supplier the weight of the form beside the distributions of prices: the one that best predicts rows that were
 * left out. The form must not have been fitted to those rows either, because it would always be best then.
 */
import { tickOf } from '../decide/price-grid.ts'
import {
  below,
  curveOfGroup,
  groupCurve,
  groupCurves,
  layersOf,
  type Mixture,
  type Strengths,
} from './density.ts'
import type { Form } from './form.ts'
import { binOf, estimate, type Place, type Uses } from './places.ts'
import type { Rows } from './rows.ts'

/** Choices of the share of the form in a group; 1: the form alone. */
const formShares = [1, 0.7, 0.4, 0.2, 0.1, 0]
/** Choices of the number of rows that the prior of a placement counts as much as; infinite: the prior alone. */
const strengths = [Number.POSITIVE_INFINITY, 200, 60, 20]
/** A distribution must increase the log likelihood by more, or the form alone is used. */
const leastGain = 3
/** Rounds of expectation-maximisation. */
const rounds = 80

/** `uses`: the rows that the form was fitted to; the others are predicted. */
export function chosenStrengths(rows: Rows, form: Form, uses: Uses): Strengths {
  const layers = layersOf(rows, form)
  const shares = chosen(layers.groups, formShares, (group, scores) => {
    const distribution = groupCurve(rows, group, 0, rounds, uses)
    for (const row of group.rows) {
      if (uses(row)) continue
      form.loadRow(row)
      const base = form.wins(rows.lnPrice[row]!)
      const share = below(distribution, tickOf(rows.lnPrice[row]!))
      formShares.forEach((of, n) => {
        scores[n]! += logLikelihood(rows, row, of * base + (1 - of) * share)
      })
    }
  })
  const curves = groupCurves(rows, layers, shares, rounds, uses)
  const priorRows = chosen(layers.places, strengths, (place, scores) =>
    scoreStrengths(rows, form, place, curveOfGroup(rows, place, curves), uses, scores),
  )
  return { formShares: shares, rows: priorRows }
}

function scoreStrengths(
  rows: Rows,
  form: Form,
  place: Place,
  group: Mixture | undefined,
  uses: Uses,
  scores: Float64Array,
): void {
  const found = strengths.map((strength) =>
    Number.isFinite(strength) ? estimate(rows, place, strength, rounds, uses) : null,
  )
  for (const row of place.rows) {
    if (uses(row)) continue
    form.loadRow(row)
    const bin = binOf(place, rows.lnPrice[row]!)
    const own = form.wins(rows.lnPrice[row]!)
    const base = group === undefined ? own : group.formShare * own + below(group, place.first + bin)
    found.forEach((each, n) => {
      const by = strengths[n]!
      const w = each === null ? base : (by * base + each.below[bin]!) / (by + each.total)
      scores[n]! += logLikelihood(rows, row, w)
    })
  }
}

function logLikelihood(rows: Rows, row: number, w: number): number {
  const known = Math.max(1e-3, Math.min(1 - 1e-3, w))
  return rows.weight[row]! * Math.log(rows.won[row] === 1 ? known : 1 - known)
}

/** By supplier, the choice with the best score over all places; the first choice, unless another one is better by `leastGain`. */
function chosen<T>(
  places: readonly Place[],
  choices: readonly T[],
  score: (place: Place, scores: Float64Array) => void,
): Map<number, T> {
  const bySupplier = new Map<number, Float64Array>()
  for (const place of places) {
    const scores = bySupplier.get(place.supplier) ?? new Float64Array(choices.length)
    bySupplier.set(place.supplier, scores)
    score(place, scores)
  }
  return new Map(
    Array.from(bySupplier, ([supplier, scores]) => {
      const best = Math.max(...scores)
      return [supplier, choices[best > scores[0]! + leastGain ? scores.indexOf(best) : 0]!]
    }),
  )
}
