/** What OPD knows of a BidRequest (OpenRTB 2.6). */

/** A floor as sent: CPM in `currency`; its own text, where it was a JSON number, so that no rounding can cross it. */
export interface Floor {
  amount: number
  text: string
  /** null: of a wrong type, so no currency at all. */
  currency: string | null
}

/** `durfloors`: a floor for creatives between two durations, in seconds, both included. */
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

/** Has `ambiguous` set where a key that decides something stands twice. */
interface Doubtful {
  ambiguous: boolean
}

export class DealFacts implements Doubtful, DurationFloors {
  id = ''
  /** BidRequest.at holds where the deal has none of its own. */
  at: number | undefined = undefined
  guaranteed = false
  floor: Floor = { amount: 0, text: '', currency: 'USD' }
  perSecond = 0
  ranges: DurationFloor[] = []
  ambiguous = false
  readonly imp: ImpFacts

  constructor(imp: ImpFacts) {
    this.imp = imp
  }
}

/** `video` and `audio` of an imp. */
export class TimedFacts implements DurationFloors {
  perSecond = 0
  ranges: DurationFloor[] = []
  size: Size | null = null
  readonly imp: ImpFacts

  constructor(imp: ImpFacts) {
    this.imp = imp
  }
}

export interface Size {
  w: number | undefined
  h: number | undefined
}

export class ImpFacts implements Doubtful {
  /** undefined: no text. */
  id: string | undefined = undefined
  floor: Floor = { amount: 0, text: '', currency: 'USD' }
  /** By id: a foreign request may list thousands, and a foreign answer name each. */
  readonly deals = new Map<string, DealFacts>()
  banner: Size | null = null
  /** The first of `banner.format`. */
  format: Size | null = null
  video: TimedFacts | null = null
  audio: TimedFacts | null = null
  native = false
  placement: string | undefined = undefined
  ambiguous = false
}

export class RequestFacts implements Doubtful {
  id = ''
  test = false
  at: number | undefined = undefined
  /** Whether there is an `imp` of any type; `imps` are those with an id. */
  impSent = false
  impList = false
  readonly imps = new Map<string, ImpFacts>()
  publisher: string | undefined = undefined
  /** Domains of the site, the app or the screen, lower case. */
  domains: string[] = []
  /** Host of `site.page`: the domain where the site names none. */
  host: string | undefined = undefined
  /** `app.bundle` and `app.id`. */
  apps: string[] = []
  country: string | undefined = undefined
  device: string | undefined = undefined
  ambiguous = false
}
