/** The parts of a BidRequest that OPD reads (OpenRTB 2.6). */

/** CPM in `currency`. `text` is the floor as it was sent, empty if it was not a JSON number: it avoids rounding below the floor. */
export interface Floor {
  amount: number
  text: string
  /** null: of a wrong type, so the currency is unknown. */
  currency: string | null
}

/** One row of `durfloors`: the floor of creatives from `from` to `to` seconds, both included. */
export interface DurationFloor {
  from: number
  to: number
  amount: number
}

/** `ambiguous`: a key that eligibility or a floor depends on is repeated. */
export interface MaybeAmbiguous {
  ambiguous: boolean
}

/** Duration floors of a video, an audio or a deal. */
export class DurationFloors implements MaybeAmbiguous {
  /** `mincpmpersec` */
  perSecond = 0
  ranges: DurationFloor[] = []
  ambiguous = false
}

export class DealFacts extends DurationFloors {
  id = ''
  /** undefined: BidRequest.at applies. */
  at: number | undefined = undefined
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

export class ImpFacts implements MaybeAmbiguous {
  /** undefined: not a string. */
  id: string | undefined = undefined
  floor: Floor = { amount: 0, text: '', currency: 'USD' }
  /** By id. A request may have thousands of deals, and a response a bid for each. */
  deals: Map<string, DealFacts> | null = null
  banner: Banner | null = null
  video: DurationFloors | null = null
  audio: DurationFloors | null = null
  native = false
  placement: string | undefined = undefined
  ambiguous = false
}

const hostOf = /^[a-z]+:\/\/(?:[^/?#@]*@)?([^/:?#]+)/i

export class RequestFacts implements MaybeAmbiguous {
  id = ''
  test = false
  at: number | undefined = undefined
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
  country: string | undefined = undefined
  device: string | undefined = undefined
  ambiguous = false

  /** Host of `site.page`, used as the domain if the site has none. */
  get host(): string | undefined {
    return hostOf.exec(this.page)?.[1]?.toLowerCase()
  }
}
