/**
 * The values of a bid by which reports are grouped. Their number is limited here, where bids are priced, so that decision,
 * context, ledger and sums have the same value of a bid.
 */
import { getOrAdd } from '../base/get-or-add.ts'
import { devices, type Facets, formats, maxDealBytes, otherValue } from '../shared/facets.ts'
import type { BidFeatures } from '../shared/reasons.ts'
import { truncateWithHash } from './record.ts'

/** Values of one supplier that one process distinguishes within an hour of UTC; the rest is `other`. */
export const maxCountries = 250
export const maxSizes = 100
export const maxDeals = 200
/** The same of all suppliers. A further one is not kept: it is made anew for each bid. */
const maxKept = { countries: 1000, sizes: 16_000, deals: 65_000, combinations: 100_000 }
/** Combinations of one supplier that are not compared with its limits again. */
const maxPermitted = 4096

const hour = 3_600_000

/** Alpha-2 or alpha-3 of ISO 3166-1; OpenRTB asks for alpha-3. */
const countryOf = (sent: string) => (/^[a-z]{2,3}$/i.test(sent) ? sent.toUpperCase() : null)
/** Whole pixels, which also bounds the length. */
const sizeOf = (sent: string) => (/^[1-9]\d{0,4}x[1-9]\d{0,4}$/.test(sent) ? sent : null)
const dealOf = (sent: string) => truncateWithHash(sent, maxDealBytes)

interface Value {
  readonly text: string
  /** Below the number of those that are kept, and 2: 0 is not known, 1 is `other`. -1: it is not kept. */
  readonly number: number
}
const unknown: Value = { text: '', number: 0 }
const other: Value = { text: otherValue, number: 1 }

/** The values of one kind, by their text. */
class Values {
  /** Null for a text that is no such value. */
  readonly read: (sent: string) => string | null
  private readonly values = new Map<string, Value>()
  private readonly limit: number

  constructor(limit: number, read: (sent: string) => string | null) {
    this.limit = limit
    this.read = read
  }

  /** undefined: the text is no value, is not kept, or is spelled in another way (`deu`) and read anew. */
  find(text: string | undefined): Value | undefined {
    return text === undefined ? unknown : this.values.get(text)
  }

  valueOfText(text: string): Value {
    const { values, limit } = this
    const known = values.get(text)
    if (known !== undefined) return known
    if (values.size >= limit) return { text, number: -1 }
    const value = { text, number: values.size + 2 }
    values.set(text, value)
    return value
  }

  clear(): void {
    this.values.clear()
  }
}

interface Combination {
  readonly facets: Facets
  /** There is no other object with these values. */
  readonly isKept: boolean
}

const deviceByNumber = new Map<string, number>(
  devices.slice(1, -1).map((_name, index) => [String(index + 1), index + 1]),
)
const deviceOf = (sent: string | undefined) =>
  sent === undefined ? 0 : (deviceByNumber.get(sent) ?? devices.length - 1)
const formatOf = (name: BidFeatures['format']) => (name === undefined ? 0 : formats.indexOf(name))

/** Of device, format, country and size; a number of 31 bits. */
function numberOf({ device, format }: BidFeatures, country: Value, size: Value): number {
  const number = deviceOf(device) * formats.length + formatOf(format)
  return (number * (maxKept.countries + 2) + country.number) * (maxKept.sizes + 2) + size.number
}

/**
 * The values of all suppliers, and one object for each combination. Suppliers get requests of the same users, so these are in the caches
 * of the processor, however many suppliers there are.
 */
export class Combinations {
  readonly countries = new Values(maxKept.countries, countryOf)
  readonly sizes = new Values(maxKept.sizes, sizeOf)
  readonly deals = new Values(maxKept.deals, dealOf)
  /** By device, format, country and size, then by deal. */
  private readonly kept = new Map<number, Map<number, Combination>>()
  private count = 0
  private nthHour = 0

  /** Forgets those of another hour. */
  begin(nthHour: number): void {
    if (nthHour === this.nthHour) return
    this.nthHour = nthHour
    for (const values of [this.countries, this.sizes, this.deals, this.kept]) values.clear()
    this.count = 0
  }

  find(features: BidFeatures, country: Value, size: Value, deal: Value): Combination | undefined {
    return this.kept.get(numberOf(features, country, size))?.get(deal.number)
  }

  combination(features: BidFeatures, country: Value, size: Value, deal: Value): Combination {
    const known = this.find(features, country, size, deal)
    if (known !== undefined) return known
    const facets: Facets = {
      country: country.text,
      device: devices[deviceOf(features.device)]!,
      format: formats[formatOf(features.format)]!,
      size: size.text,
      deal: deal.text,
    }
    const isKept =
      this.count < maxKept.combinations && [country, size, deal].every(({ number }) => number >= 0)
    const made = { facets, isKept }
    if (!isKept) return made
    this.count++
    const number = numberOf(features, country, size)
    getOrAdd(this.kept, number, () => new Map<number, Combination>()).set(deal.number, made)
    return made
  }
}

/** The values of one kind that a supplier has. */
class Limited {
  private readonly seen = new Set<string>()
  private readonly limit: number

  constructor(limit: number) {
    this.limit = limit
  }

  /** `other`: the text is no value, or the supplier has as many as it may have. */
  within(sent: string | undefined, values: Values): Value {
    if (sent === undefined) return unknown
    const { seen, limit } = this
    const text = values.read(sent)
    if (text === null || (seen.size >= limit && !seen.has(text))) return other
    seen.add(text)
    return values.valueOfText(text)
  }

  clear(): void {
    this.seen.clear()
  }
}

/** The facets of the bids of one supplier: one object for each combination, so that bids are counted by it. */
export class FacetTable {
  private readonly all: Combinations
  /** Those that are within the limits of this hour. */
  private readonly permitted = new Set<Combination>()
  private nthHour = 0
  private readonly countries = new Limited(maxCountries)
  private readonly sizes = new Limited(maxSizes)
  private readonly deals = new Limited(maxDeals)

  /** @param all those of all suppliers of the process */
  constructor(all: Combinations) {
    this.all = all
  }

  /** @param time milliseconds since the epoch; undefined is returned if nothing is known */
  facetsOf(features: BidFeatures, time: number): Facets | undefined {
    const { all } = this
    const nthHour = Math.floor(time / hour)
    if (nthHour !== this.nthHour) this.startHour(nthHour)
    all.begin(nthHour)
    const country = all.countries.find(features.country)
    const size = all.sizes.find(features.size)
    const deal = all.deals.find(features.deal)
    if (country === undefined || size === undefined || deal === undefined)
      return this.limited(features)
    if (numberOf(features, country, size) === 0 && deal === unknown) return undefined
    const combination = all.find(features, country, size, deal)
    return combination !== undefined && this.permitted.has(combination)
      ? combination.facets
      : this.limited(features)
  }

  private limited(features: BidFeatures): Facets {
    const { all, permitted } = this
    const country = this.countries.within(features.country, all.countries)
    const size = this.sizes.within(features.size, all.sizes)
    const deal = this.deals.within(features.deal, all.deals)
    const combination = all.combination(features, country, size, deal)
    if (combination.isKept && permitted.size < maxPermitted) permitted.add(combination)
    return combination.facets
  }

  private startHour(nthHour: number): void {
    this.nthHour = nthHour
    for (const values of [this.countries, this.sizes, this.deals, this.permitted]) values.clear()
  }
}
