/** What OPD reads of a BidRequest (OpenRTB 2.6): once per answer that holds the marker, never before. */
import { malformed, Scanner, scannerOf } from './json/scan.ts'

/** A floor as sent: CPM in `currency`, its own text kept so that no rounding can cross it. */
export interface Floor {
  amount: number
  text: string
  currency: string
}

/** `durfloors`: a floor for creatives between two durations, in seconds. */
export interface DurationFloor {
  from: number
  to: number
  amount: number
}

/** Duration floors of a video, an audio or a deal; `perSecond` is `mincpmpersec`. */
export interface DurationFloors {
  perSecond: number
  ranges: DurationFloor[]
}

export interface DealFacts {
  id: string
  /** `at` 3 or `guar` 1: the price is agreed. */
  fixed: boolean
  auction: 1 | 2 | undefined
  floor: Floor
  durations: DurationFloors
}

export interface ImpFacts {
  id: string
  floor: Floor
  deals: DealFacts[]
  banner: boolean
  video: DurationFloors | null
  audio: DurationFloors | null
  native: boolean
  size: string | undefined
  placement: string | undefined
  /** A key that decides something stands twice. */
  ambiguous: boolean
}

export interface RequestFacts {
  id: string
  test: boolean
  auction: 1 | 2 | undefined
  imps: Map<string, ImpFacts>
  publisher: string | undefined
  domain: string | undefined
  /** `app.bundle` and `app.id`. */
  apps: string[]
  country: string | undefined
  device: string | undefined
  ambiguous: boolean
}

const noDurations = (): DurationFloors => ({ perSecond: 0, ranges: [] })
const noFloor = (): Floor => ({ amount: 0, text: '0', currency: 'USD' })

/** Keys of one object: says whether one that decides has been seen before. */
class Seen {
  private readonly keys = new Set<string>()
  repeated = false

  add(key: string): void {
    if (this.keys.has(key)) this.repeated = true
    else this.keys.add(key)
  }
}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined

/** A floor that is no number is none; a numeral in quotes is still meant as one. */
function amountOf(value: unknown): number {
  const amount = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof amount === 'number' && amount > 0 ? amount : 0
}

class RequestReader {
  private readonly scan: Scanner
  private readonly facts: RequestFacts = {
    id: '',
    test: false,
    auction: undefined,
    imps: new Map(),
    publisher: undefined,
    domain: undefined,
    apps: [],
    country: undefined,
    device: undefined,
    ambiguous: false,
  }

  constructor(scan: Scanner) {
    this.scan = scan
  }

  whole(): RequestFacts | null {
    const { scan } = this
    let isObject = false
    const good = scan.document((at) => {
      isObject = scan.text.charCodeAt(at) === 123
      return isObject ? this.root(at) : scan.skip(at)
    })
    return good && isObject ? this.facts : null
  }

  private leaf(at: number, take: (value: Scanner['value'], end: number) => void): number {
    const end = this.scan.read(at)
    if (end !== malformed) take(this.scan.value, end)
    return end
  }

  /** An object of which some keys decide; anything that is no object is skipped. */
  private object(
    at: number,
    seen: Seen,
    members: Readonly<Record<string, (at: number) => number>>,
    repeated: () => void,
  ): number {
    if (this.scan.text.charCodeAt(at) !== 123) return this.scan.skip(at)
    const end = this.scan.object(at, (key, value) => {
      const member = Object.hasOwn(members, key) ? members[key] : undefined
      if (member === undefined) return this.scan.skip(value)
      seen.add(key)
      return member(value)
    })
    if (seen.repeated) repeated()
    return end
  }

  private list(at: number, element: (at: number) => number): number {
    return this.scan.text.charCodeAt(at) === 91 ? this.scan.array(at, element) : this.scan.skip(at)
  }

  private root(at: number): number {
    const { facts } = this
    const ambiguous = () => {
      facts.ambiguous = true
    }
    const publisher = (value: number) =>
      this.object(
        value,
        new Seen(),
        { id: (id) => this.leaf(id, (found) => (facts.publisher = text(found))) },
        () => {},
      )
    return this.object(
      at,
      new Seen(),
      {
        id: (value) => this.leaf(value, (found) => (facts.id = text(found) ?? '')),
        test: (value) => this.leaf(value, (found) => (facts.test = found === 1 || found === true)),
        at: (value) => this.leaf(value, (found) => (facts.auction = auctionOf(found))),
        imp: (value) => this.list(value, (each) => this.imp(each)),
        site: (value) =>
          this.object(
            value,
            new Seen(),
            {
              domain: (each) => this.leaf(each, (found) => (facts.domain = text(found))),
              publisher,
            },
            () => {},
          ),
        app: (value) =>
          this.object(
            value,
            new Seen(),
            {
              bundle: (each) => this.leaf(each, (found) => this.app(found, true)),
              id: (each) => this.leaf(each, (found) => this.app(found, false)),
              publisher,
            },
            () => {},
          ),
        device: (value) => this.device(value),
      },
      ambiguous,
    )
  }

  private app(found: unknown, bundle: boolean): void {
    const name = text(found)
    if (name === undefined) return
    this.facts.apps.push(name)
    if (bundle) this.facts.domain ??= name
  }

  private device(at: number): number {
    const { facts } = this
    return this.object(
      at,
      new Seen(),
      {
        devicetype: (value) =>
          this.leaf(value, (found) => {
            if (typeof found === 'number') facts.device = String(found)
          }),
        geo: (value) =>
          this.object(
            value,
            new Seen(),
            { country: (each) => this.leaf(each, (found) => (facts.country = text(found))) },
            () => {},
          ),
      },
      () => {},
    )
  }

  private imp(at: number): number {
    if (this.scan.text.charCodeAt(at) !== 123) return this.scan.skip(at)
    const imp: ImpFacts = {
      id: '',
      floor: noFloor(),
      deals: [],
      banner: false,
      video: null,
      audio: null,
      native: false,
      size: undefined,
      placement: undefined,
      ambiguous: false,
    }
    let known = false
    const ambiguous = () => {
      imp.ambiguous = true
    }
    const offered = (value: number, take: () => void) => {
      if (this.scan.text.charCodeAt(value) !== 110) take()
      return this.scan.skip(value)
    }
    const timed = (value: number, take: (floors: DurationFloors) => void) => {
      if (this.scan.text.charCodeAt(value) === 110) return this.scan.skip(value)
      const floors = noDurations()
      take(floors)
      return this.durations(value, floors, ambiguous)
    }
    const end = this.object(
      at,
      new Seen(),
      {
        id: (value) =>
          this.leaf(value, (found) => {
            known = typeof found === 'string'
            imp.id = known ? String(found) : ''
          }),
        ...this.floorMembers(imp.floor),
        pmp: (value) =>
          this.object(
            value,
            new Seen(),
            { deals: (deals) => this.list(deals, (each) => this.deal(each, imp)) },
            ambiguous,
          ),
        banner: (value) => this.banner(value, imp),
        video: (value) => timed(value, (floors) => (imp.video = floors)),
        audio: (value) => timed(value, (floors) => (imp.audio = floors)),
        native: (value) => offered(value, () => (imp.native = true)),
        tagid: (value) => this.leaf(value, (found) => (imp.placement = text(found))),
      },
      ambiguous,
    )
    if (!known) return end
    const twin = this.facts.imps.get(imp.id)
    if (twin !== undefined) imp.ambiguous = true
    this.facts.imps.set(imp.id, imp)
    return end
  }

  private banner(at: number, imp: ImpFacts): number {
    if (this.scan.text.charCodeAt(at) === 110) return this.scan.skip(at)
    imp.banner = true
    let width: unknown
    let height: unknown
    const end = this.object(
      at,
      new Seen(),
      {
        w: (value) => this.leaf(value, (found) => (width = found)),
        h: (value) => this.leaf(value, (found) => (height = found)),
      },
      () => {},
    )
    if (typeof width === 'number' && typeof height === 'number') imp.size = `${width}x${height}`
    return end
  }

  private floorMembers(floor: Floor) {
    return {
      bidfloor: (at: number) =>
        this.leaf(at, (found, end) => {
          floor.amount = amountOf(found)
          floor.text = this.scan.text.slice(at, end).replaceAll('"', '')
        }),
      bidfloorcur: (at: number) =>
        this.leaf(at, (found) => (floor.currency = text(found)?.toUpperCase() ?? 'USD')),
    }
  }

  private durations(at: number, into: DurationFloors, ambiguous: () => void): number {
    return this.object(at, new Seen(), this.durationMembers(into, ambiguous), ambiguous)
  }

  private durationMembers(into: DurationFloors, ambiguous: () => void) {
    return {
      mincpmpersec: (at: number) => this.leaf(at, (found) => (into.perSecond = amountOf(found))),
      durfloors: (at: number) =>
        this.list(at, (each) => {
          const range = { from: 0, to: Number.POSITIVE_INFINITY, amount: 0 }
          into.ranges.push(range)
          const seconds = (found: unknown, otherwise: number) =>
            typeof found === 'number' ? found : otherwise
          return this.object(
            each,
            new Seen(),
            {
              mindur: (value) => this.leaf(value, (found) => (range.from = seconds(found, 0))),
              maxdur: (value) =>
                this.leaf(value, (found) => (range.to = seconds(found, Number.POSITIVE_INFINITY))),
              bidfloor: (value) => this.leaf(value, (found) => (range.amount = amountOf(found))),
            },
            ambiguous,
          )
        }),
    }
  }

  private deal(at: number, imp: ImpFacts): number {
    const deal: DealFacts = {
      id: '',
      fixed: false,
      auction: undefined,
      floor: noFloor(),
      durations: noDurations(),
    }
    const ambiguous = () => {
      imp.ambiguous = true
    }
    const end = this.object(
      at,
      new Seen(),
      {
        id: (value) => this.leaf(value, (found) => (deal.id = text(found) ?? '')),
        at: (value) =>
          this.leaf(value, (found) => {
            if (Number(found) === 3) deal.fixed = true
            deal.auction = auctionOf(found)
          }),
        guar: (value) =>
          this.leaf(value, (found) => {
            if (found === true || Number(found) === 1) deal.fixed = true
          }),
        ...this.floorMembers(deal.floor),
        ...this.durationMembers(deal.durations, ambiguous),
      },
      ambiguous,
    )
    if (deal.id === '') return end
    if (imp.deals.some((other) => other.id === deal.id)) imp.ambiguous = true
    imp.deals.push(deal)
    return end
  }
}

const auctionOf = (value: unknown): 1 | 2 | undefined =>
  value === 1 || value === 2 ? value : undefined

/** null: not UTF-8, not JSON, or no object. */
export function readRequest(body: Buffer): RequestFacts | null {
  const scan = scannerOf(body)
  return scan === null ? null : new RequestReader(scan).whole()
}

/**
 * The top-level `tmax` in milliseconds: what the deadline needs before the request goes out. A body without
 * the word costs one indexOf; one that is not a positive integer, or stands twice, is ignored.
 */
export function quickTmax(body: Buffer): number | undefined {
  if (!body.includes('"tmax"')) return undefined
  const scan = new Scanner(body)
  let tmax: number | undefined
  let times = 0
  scan.document((at) => {
    if (scan.text.charCodeAt(at) !== 123) return malformed
    return scan.object(at, (key, value) => {
      if (key !== 'tmax') return scan.skip(value)
      times++
      const end = scan.read(value)
      if (typeof scan.value === 'number') tmax = scan.value
      return end
    })
  })
  return times === 1 && tmax !== undefined && Number.isSafeInteger(tmax) && tmax > 0
    ? tmax
    : undefined
}
