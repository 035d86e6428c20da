/** Parts of the learner, each with what switches it off: methods are replaced for one run, so the learner has no switches. */

import { Evidence } from '../../opd/learner/control/evidence.ts'
import { Guards } from '../../opd/learner/control/guards.ts'
import { SupplierState, TriedBids } from '../../opd/learner/control/supplier-state.ts'
import { Curve } from '../../opd/learner/curve/curve.ts'
import { PriceDensities } from '../../opd/learner/curve/price-density.ts'
import { OnlineLearner } from '../../opd/learner/learner.ts'
import { Form } from '../../opd/learner/refit/form.ts'
import { NoticeDelays } from '../../opd/learner/train/notice-delays.ts'

/** Replaces a method, and returns a function that restores it. */
export function replaced<T extends object, K extends keyof T>(
  target: T,
  name: K,
  by: T[K],
): () => void {
  const original = target[name]
  target[name] = by
  return () => {
    target[name] = original
  }
}

/** Replaces what is read of an object by one value, and returns a function that restores it. */
function replacedGetter<T extends object, K extends keyof T>(
  target: T,
  name: K,
  by: T[K],
): () => void {
  const original = Object.getOwnPropertyDescriptor(target, name)!
  Object.defineProperty(target, name, { ...original, get: () => by })
  return () => Object.defineProperty(target, name, original)
}

const { total } = Evidence.prototype
const { fit } = Form.prototype

/** By part: switches it off, and returns what switches it on again. */
export const parts: Readonly<Record<string, () => () => void>> = {
  'joint refit': () => replaced(OnlineLearner.prototype, 'refitJob', () => null),
  'distributions of prices': () => replaced(PriceDensities.prototype, 'set', () => undefined),
  'slopes of halves': () =>
    replaced(Form.prototype, 'fit', function (this: Form, observed, priors, evaluations) {
      fit.call(this, observed, priors, evaluations)
    }),
  'steps between fits': () => replaced(Curve.prototype, 'train', () => undefined),
  exploration: () => replaced(SupplierState.prototype, 'exploration', () => 0),
  'bids held': () => replacedGetter(SupplierState.prototype, 'heldShare', 0),
  'trust by results': () => replacedGetter(TriedBids.prototype, 'trust', 1),
  'losses as verified': () =>
    replaced(Evidence.prototype, 'total', function (this: Evidence, union, name) {
      return union === 'compared' ? 0 : total.call(this, union, name)
    }),
  'delay curve': () => replaced(NoticeDelays.prototype, 'age', () => Number.POSITIVE_INFINITY),
  'shallow start': () => replaced(Guards.prototype, 'lowest', (least) => least),
}
