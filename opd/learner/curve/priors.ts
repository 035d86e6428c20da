/**
 * Which weights a win curve is summed from, and how far each may be expected to lie from 0: prior variances, by key.
 * Slopes are logarithms, all else is on the logistic scale.
 */

/** What a bid is known by; a weight belongs to one of them. The order is that of `keysOf` in features.ts. */
export const keyNames = [
  'all',
  'supplier',
  'publisher',
  'placement',
  'country',
  'device',
  'size',
  'dsp',
  'deal',
  'domain',
  'hour',
] as const
type Key = (typeof keyNames)[number]
export const keyCount = keyNames.length
export const keyAt = Object.fromEntries(keyNames.map((name, at) => [name, at])) as Record<
  Key,
  number
>

export type Priors = Partial<Record<Key, number>>

export const parameterNames = ['A', 'B', 'C', 'Q', 'T', 'F'] as const
type Parameter = (typeof parameterNames)[number]
export const parameterCount = parameterNames.length
/** Prior means, in that order. */
export const means = [2, 1.2, 2, 1.8, -2.5, -3]

/** Before a fit has estimated them from the rows. */
export const priors: Record<Parameter, Priors> = {
  A: {
    all: 2,
    supplier: 0.5,
    publisher: 0.5,
    placement: 0.2,
    country: 0.1,
    device: 0.05,
    size: 0.05,
    dsp: 0.1,
    deal: 0.1,
    domain: 0.02,
    hour: 0.03,
  },
  B: { all: 0.2, supplier: 0.03 },
  C: { all: 2, supplier: 0.2 },
  Q: { all: 0.3, supplier: 0.1, placement: 0.05 },
  T: { all: 0.3, supplier: 0.1, placement: 0.03 },
  F: { all: 0.5, supplier: 0.2, placement: 0.2 },
}

/**
 * Of these, what steps between two fits may use, by parameter: a step sees one bid, and with wide priors takes whatever it
 * saw for a plateau or a slope.
 */
export const stepShares: Record<Parameter, number> = {
  A: 1,
  B: 0.2,
  C: 0.4,
  Q: 0.002,
  T: 0.3,
  F: 1,
}

/** Others, prior variances by key: the usual ln in; share of second price. */
export const usual: Priors = {
  all: 1,
  supplier: 0.3,
  publisher: 0.3,
  placement: 0.05,
  country: 0.1,
  device: 0.03,
  size: 0.05,
  dsp: 0.1,
}
export const saving: Priors = { all: 0.05, supplier: 0.05 }
/** Before anything cleared, of first-price and of second-price auctions. */
export const savingMeans = [0, 0.75] as const
