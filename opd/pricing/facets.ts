/**
 * The values of a bid by which reports are grouped. Their number is limited here, where bids are priced, so that decision,
 * context, ledger and sums have the same value of a bid.
 */
import { devices, type Facets, formats, maxDealBytes, otherValue } from '../shared/facets.ts'
import type { BidFeatures } from '../shared/reasons.ts'
import { truncateWithHash } from './record.ts'

/** Values of one supplier that one process distinguishes within an hour of UTC; the rest is `other`. */
export const maxCountries = 250
export const maxSizes = 100
export const maxDeals = 200
/** Combinations that are kept. One more is made for each bid. */
const maxCombinations = 4096

const hour = 3_600_000

/** Alpha-2 or alpha-3 of ISO 3166-1; OpenRTB asks for alpha-3. */
const countryOf = (sent: string) => (/^[a-z]{2,3}$/i.test(sent) ? sent.toUpperCase() : null)
/** Whole pixels, which also bounds the length. */
const sizeOf = (sent: string) => (/^[1-9]\d{0,4}x[1-9]\d{0,4}$/.test(sent) ? sent : null)
const dealOf = (sent: string) => truncateWithHash(sent, maxDealBytes)

interface Value {
  text: string
  /** Below `limit`: 0 is not known, 1 is `other`. */
  number: number
}
const unknown: Value = { text: '', number: 0 }
const other: Value = { text: otherValue, number: 1 }

/** The values of one kind, by the text that was sent. */
class Values {
  private readonly values = new Map<string, Value>()
  private readonly limit: number
  private readonly read: (sent: string) => string | null

  /** @param read returns null for a text that is no such value */
  constructor(limit: number, read: (sent: string) => string | null) {
    this.limit = limit
    this.read = read
  }

  valueOfText(sent: string | undefined): Value {
    if (sent === undefined) return unknown
    return this.values.get(sent) ?? this.addValue(sent)
  }

  private addValue(sent: string): Value {
    const { values, limit } = this
    const text = values.size < limit ? this.read(sent) : null
    if (text === null) return other
    const value = { text, number: values.size + 2 }
    values.set(sent, value)
    return value
  }

  clear(): void {
    this.values.clear()
  }
}

/** Numbers of the values of a kind; a combination has one number for all of them. */
const places = (limit: number) => limit + 2
const deviceByNumber = new Map<string, number>(
  devices.slice(1, -1).map((_name, index) => [String(index + 1), index + 1]),
)

/** The facets of the bids of one supplier: one object for each combination, so that bids are counted by it. */
export class FacetTable {
  private readonly countries = new Values(maxCountries, countryOf)
  private readonly sizes = new Values(maxSizes, sizeOf)
  private readonly deals = new Values(maxDeals, dealOf)
  private readonly combinations = new Map<number, Facets>()
  private until = 0

  /** @param time milliseconds since the epoch; undefined is returned if nothing is known */
  facetsOf(features: BidFeatures, time: number): Facets | undefined {
    if (!(time < this.until && time >= this.until - hour)) this.startHour(time)
    const country = this.countries.valueOfText(features.country)
    const size = this.sizes.valueOfText(features.size)
    const deal = this.deals.valueOfText(features.deal)
    const { device: sent, format: name } = features
    const device = sent === undefined ? 0 : (deviceByNumber.get(sent) ?? devices.length - 1)
    const format = name === undefined ? 0 : formats.indexOf(name)
    let number = device * formats.length + format
    number = number * places(maxCountries) + country.number
    number = number * places(maxSizes) + size.number
    number = number * places(maxDeals) + deal.number
    if (number === 0) return undefined
    const known = this.combinations.get(number)
    if (known !== undefined) return known
    const facets: Facets = {
      country: country.text,
      device: devices[device]!,
      format: formats[format]!,
      size: size.text,
      deal: deal.text,
    }
    if (this.combinations.size < maxCombinations) this.combinations.set(number, facets)
    return facets
  }

  private startHour(time: number): void {
    this.until = time - (time % hour) + hour
    for (const values of [this.countries, this.sizes, this.deals]) values.clear()
    this.combinations.clear()
  }
}
