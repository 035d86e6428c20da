/**
 * The weights of the win curve: the keys that they belong to, and their prior means and variances. Slopes are logarithms; all
 * others are on the logistic scale.
 */

/** The keys of a bid. Each weight belongs to the value of one key. `keysOf` in features.ts writes them in this order. */
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
export const keyAt = Object.fromEntries(keyNames.map((name, index) => [name, index])) as Record<
  Key,
  number
>

export type Priors = Partial<Record<Key, number>>

export const parameterNames = ['A', 'B', 'C', 'Q', 'T', 'F'] as const
type Parameter = (typeof parameterNames)[number]
export const parameterCount = parameterNames.length
/** Prior means, in the order of `parameterNames`. */
export const means = [2, 1.2, 2, 1.8, -2.5, -3]

/** Prior variances by key, until a fit has estimated them from the rows. */
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
 * The share of the prior variance that steps between two fits use, by parameter. A step knows one bid only; with the whole
 * variance it would explain every outcome by a plateau or a slope.
 */
export const stepShares: Record<Parameter, number> = {
  A: 1,
  B: 0.2,
  C: 0.4,
  Q: 0.002,
  T: 0.3,
  F: 1,
}

/** Prior variances of the other weights by key: the usual ln in, and the share of wins that clear below the price sent. */
export const usual: Priors = { supplier: 1 }
export const saving: Priors = { all: 0.05, supplier: 0.05 }
/** Prior means of that share in first-price and in second-price auctions. */
export const savingMeans = [0, 0.75] as const
