import { KeyTable, type Leaf, type Read } from '../json/scanner.ts'

/** The parts of a BidRequest that OPD reads (OpenRTB 2.6). */

/** CPM in `currency`. `text` is the floor as it was sent, empty if it was not a JSON number: it avoids rounding below the floor. */
export interface Floor {
  amount: number
  text: string
  /** null: of a wrong type, so the currency is unknown. */
  currency: string | null
}

/** One row of `durfloors`: the floor of creatives from `from` to `to` seconds, both included. */
interface DurationFloor {
  from: number
  to: number
  amount: number
}

/** `ambiguous`: a key that eligibility or a floor depends on is repeated. */
interface MaybeAmbiguous {
  ambiguous: boolean
}

/** Duration floors of a video, an audio or a deal. */
export class DurationFloors implements MaybeAmbiguous {
  /** `mincpmpersec` */
  perSecond = 0
  ranges: DurationFloor[] = []
  ambiguous = false
}

/** What pricing needs of `imp.video`: `w` and `h` are those of the player. */
export class VideoFacts extends DurationFloors implements Size {
  w: number | undefined = undefined
  h: number | undefined = undefined
}

/** What pricing needs of `imp.pmp.deals[]`. */
export class DealFacts extends DurationFloors {
  id = ''
  /** undefined: BidRequest.at applies. */
  auctionType: number | undefined = undefined
  guaranteed = false
  floor: Floor = { amount: 0, text: '', currency: 'USD' }
  readonly imp: ImpFacts

  constructor(imp: ImpFacts) {
    super()
    this.imp = imp
  }
}

export interface Size {
  w: number | undefined
  h: number | undefined
}

export interface Banner extends Size {
  /** The first of `banner.format`. */
  format: Size | null
}

/** What pricing needs of `imp[]`. */
export class ImpFacts implements MaybeAmbiguous {
  /** undefined: not a string. */
  id: string | undefined = undefined
  floor: Floor = { amount: 0, text: '', currency: 'USD' }
  /** By id. A request may have thousands of deals, and a response a bid for each. */
  deals: Map<string, DealFacts> | null = null
  banner: Banner | null = null
  video: VideoFacts | null = null
  audio: DurationFloors | null = null
  native = false
  placement: string | undefined = undefined
  ambiguous = false
}

/** Characters of a page up to the end of its host: a name has 253 at most, and a user before it may have as many again. */
const longestOrigin = 1024
const hostOf = /^[a-z]+:\/\/(?:[^/?#@]*@)?([^/:?#]+)/i

/** What pricing needs of a bid request, in JSON or in Protocol Buffers. */
export class RequestFacts implements MaybeAmbiguous {
  id = ''
  test = false
  auctionType: number | undefined = undefined
  /** `imp` is present, of any type. */
  impSent = false
  /** `imp` is an array. */
  impList = false
  /** Imps with an id. */
  readonly imps = new Map<string, ImpFacts>()
  publisher: string | undefined = undefined
  /** Domains of the site, the app or the screen, lower case. */
  domains: string[] = []
  /** `site.page`. */
  page = ''
  /** `app.bundle` and `app.id`. */
  apps: string[] = []
  /** `device.geo.country`: where the device is. */
  country: string | undefined = undefined
  /** `user.geo.country`: where the user lives, for requests that do not say where the device is. */
  homeCountry: string | undefined = undefined
  device: string | undefined = undefined
  ambiguous = false

  /**
   * Host of `site.page`, used as the domain if the site has none. It is read for each bid with other terms: a page of 1 MiB
   * would take a millisecond each time, so a host is searched in the beginning only.
   */
  get host(): string | undefined {
    return hostOf.exec(this.page.slice(0, longestOrigin))?.[1]?.toLowerCase()
  }
}

/** Readers that the key tables of a BidRequest share. */

/** A string that is not empty. */
export const textOf = (value: Leaf): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A number, or a string that contains one. */
export const numberOf = (value: Leaf): number | undefined => {
  if (typeof value === 'number') return value
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : Number.NaN
  return Number.isNaN(number) ? undefined : number
}

/** A flag of OpenRTB: 1, or true. */
export const flagOf = (value: Leaf): boolean => value === true || numberOf(value) === 1

/**
 * A currency, USD by default; null: of a wrong type.
 *
 * @param value of `cur` or `bidfloorcur`, as in the document
 * @returns upper case, but not checked to be a currency
 */
export const currencyOf = (value: Leaf): string | null => {
  if (value === null || value === '') return 'USD'
  return typeof value === 'string' ? value.toUpperCase() : null
}

/** A floor that is negative or not a number counts as 0. An infinite floor is above every price. */
const amountOf = (value: Leaf): number => {
  const amount = numberOf(value)
  return amount !== undefined && amount > 0 ? Math.min(amount, Number.MAX_VALUE) : 0
}

export const markAmbiguous = (into: MaybeAmbiguous) => {
  into.ambiguous = true
}

/** `bidfloor` and `bidfloorcur` of an imp or a deal. A deal does not inherit the currency of its imp. */
export const floorMembers = {
  bidfloor: (scan, { floor }) => {
    const value = scan.leaf()
    floor.amount = amountOf(value)
    const isExact = typeof value === 'number' && floor.amount !== Number.MAX_VALUE
    floor.text = isExact ? scan.source : ''
  },
  bidfloorcur: (scan, { floor }) => {
    floor.currency = currencyOf(scan.leaf())
  },
} satisfies Record<string, Read<{ floor: Floor }>>

interface Range extends DurationFloor {
  floors: DurationFloors
}

const rangeKeys = new KeyTable<Range>(
  {
    mindur: (scan, range) => {
      range.from = numberOf(scan.leaf()) ?? 0
    },
    maxdur: (scan, range) => {
      range.to = numberOf(scan.leaf()) ?? Number.POSITIVE_INFINITY
    },
    bidfloor: (scan, range) => {
      range.amount = amountOf(scan.leaf())
    },
  },
  ({ floors }) => markAmbiguous(floors),
)

/** Each bid is compared with all ranges, so their number is bounded. */
export const maxRanges = 200

const readRange: Read<DurationFloors> = (scan, floors) => {
  if (floors.ranges.length === maxRanges) return markAmbiguous(floors)
  const range = { from: 0, to: Number.POSITIVE_INFINITY, amount: 0, floors }
  floors.ranges.push(range)
  scan.object(rangeKeys, range)
}

export const durationMembers = {
  mincpmpersec: (scan, floors) => {
    floors.perSecond = amountOf(scan.leaf())
  },
  durfloors: (scan, floors) => scan.array(readRange, floors),
} satisfies Record<string, Read<DurationFloors>>
