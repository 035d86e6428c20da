/**
 * Which weights a win curve is summed from, and how far each may be expected to lie from 0: prior variances, by key.
 * Positions are in units of ln price, slopes, plateaus and feet on their logarithmic or logistic scales.
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
  'publisherCountry',
  'publisherDsp',
  'hour',
  'publisherHour',
  'publisherFloor',
  'placementFloor',
  'supplierFloor',
] as const
export type Key = (typeof keyNames)[number]
export const keyCount = keyNames.length
export const keyAt = Object.fromEntries(keyNames.map((name, at) => [name, at])) as Record<
  Key,
  number
>

export type Priors = Partial<Record<Key, number>>

/** W = Q (T + (1 - T) (F + (1 - F) sigmoid(S (ln f + A + C x)))), S = e^B. */
interface Expert {
  A: Priors
  B: Priors
  C: Priors
  Q: Priors
  T: Priors
  /** What is won at the floor itself; only where there is one. */
  F: Priors
}
export const parameterNames = ['A', 'B', 'C', 'Q', 'T', 'F'] as const
export const parameterCount = parameterNames.length
/** Prior means, in that order. */
export const means = [0.4, 1.6, 0.4, 1.8, -2.5, -3]

/** Tight: learns slowly and surely where the curve is smooth. Priors of both by search over the markets of bench/opd. */
const smooth: Expert = {
  A: {
    all: 0.05,
    supplier: 0.02,
    publisher: 0.0046,
    placement: 0.0035,
    country: 0.003,
    device: 0.001,
    size: 0.001,
    dsp: 0.002,
    deal: 0.005,
    domain: 0.001,
    publisherCountry: 0.00065,
    publisherDsp: 0.00065,
    hour: 0.00065,
    publisherHour: 0.00065,
    publisherFloor: 0.0005,
  },
  B: { all: 0.05, supplier: 0.02, publisher: 0.006, placement: 0.002 },
  C: { all: 0.03, supplier: 0.003, publisher: 0.002 },
  Q: { all: 0.0002 },
  T: { all: 0.1, supplier: 0.03, publisher: 0.026, placement: 0.013 },
  F: {
    all: 0.5,
    supplier: 0.2,
    supplierFloor: 0.05,
    publisher: 0.1,
    placement: 0.1,
    placementFloor: 0.1,
  },
}

/** Looser about placements, and with effects of single prices. */
const spiky: Expert = {
  A: {
    all: 0.05,
    supplier: 0.02,
    publisher: 0.01,
    placement: 0.014,
    country: 0.0075,
    device: 0.0025,
    size: 0.0025,
    dsp: 0.005,
    deal: 0.0125,
    domain: 0.0025,
    publisherCountry: 0.0005,
    publisherDsp: 0.0005,
    hour: 0.0005,
    publisherHour: 0.0005,
    publisherFloor: 0.0005,
  },
  B: { all: 0.0023, supplier: 0.0009, publisher: 0.03, placement: 0.01 },
  C: { all: 0.03, supplier: 0.003, publisher: 0.002 },
  Q: { all: 0.0001 },
  T: { all: 0.011, supplier: 0.0033, publisher: 0.02, placement: 0.01 },
  F: {
    all: 0.22,
    supplier: 0.09,
    supplierFloor: 0.022,
    publisher: 0.1,
    placement: 0.1,
    placementFloor: 0.1,
  },
}
export const experts: readonly Expert[] = [smooth, spiky]

/** Effects of single prices in the second expert: bands of `width` fine ticks, absolute, or relative to in. */
export interface Band {
  key: Key
  width: number
  relative: boolean
  prior: number
}
export const bands: Band[] = [
  { key: 'supplier', width: 4, relative: false, prior: 0.1 },
  { key: 'publisher', width: 4, relative: false, prior: 0.1 },
  { key: 'placement', width: 4, relative: false, prior: 0.05 },
  { key: 'supplier', width: 1, relative: false, prior: 0.1 },
  { key: 'publisher', width: 1, relative: false, prior: 0.1 },
  { key: 'placement', width: 1, relative: false, prior: 0.05 },
  { key: 'supplier', width: 4, relative: true, prior: 0.03 },
  { key: 'publisher', width: 4, relative: true, prior: 0.03 },
  { key: 'placement', width: 4, relative: true, prior: 0.02 },
]

/** Others, prior variances by key: how much of the competition rounds to a unit; the usual ln in; share of second price. */
export const rounding: Priors = { all: 0.0011, supplier: 0.0022, publisher: 0.0022 }
export const usual: Priors = { all: 1, supplier: 0.3, publisher: 0.3 }
export const saving: Priors = { all: 0.05, supplier: 0.05 }
/** Before anything cleared, of first-price and of second-price auctions. */
export const savingMeans = [0, 0.75] as const
/** Weight of the second expert, logistic. */
export const mixing: Priors = { all: 0.02, supplier: 0.02 }

export const tuned = {
  /** A variance grows by this share of its prior a touch: what was learned is slowly doubted. */
  forgetting: 5e-6,
  /** Deviations of B by which prices are chosen as if the curve were steeper. */
  pessimistB: 1.6,
  /** Prior mean of the second expert's weight, logistic. */
  mixMean: 1.06,
}
