/** Reads the bid request, once for each response with a macro. */
import {
  type Body,
  createScanner,
  KeyTable,
  objectSteps,
  type Read,
  type Scanner,
} from '../json/scanner.ts'
import {
  type Banner,
  DealFacts,
  DurationFloors,
  durationMembers,
  flagOf,
  floorMembers,
  ImpFacts,
  markAmbiguous,
  numberOf,
  RequestFacts,
  type Size,
  textOf,
  VideoFacts,
} from './facts.ts'

const dealKeys = new KeyTable<DealFacts>(
  {
    id: (scan, deal) => {
      deal.id = textOf(scan.leaf()) ?? ''
    },
    at: (scan, deal) => {
      deal.auctionType = numberOf(scan.leaf())
    },
    guar: (scan, deal) => {
      deal.guaranteed = flagOf(scan.leaf())
    },
    ...floorMembers,
    ...durationMembers,
  },
  (deal, key) => {
    deal.ambiguous = true
    // With a repeated id, the terms could belong to any deal of the imp.
    if (key === 'id') deal.imp.ambiguous = true
  },
)

const readDeal: Read<ImpFacts> = (scan, imp) => {
  scan.steps += objectSteps
  const deal = new DealFacts(imp)
  scan.object(dealKeys, deal)
  if (deal.id === '') return
  imp.deals ??= new Map()
  const duplicate = imp.deals.get(deal.id)
  if (duplicate !== undefined) duplicate.ambiguous = true
  else imp.deals.set(deal.id, deal)
}

const pmpKeys = new KeyTable<ImpFacts>(
  { deals: (scan, imp) => scan.array(readDeal, imp) },
  markAmbiguous,
)

const sizeMembers: Record<string, Read<Size>> = {
  w: (scan, size) => {
    size.w = numberOf(scan.leaf())
  },
  h: (scan, size) => {
    size.h = numberOf(scan.leaf())
  },
}
const sizeKeys = new KeyTable<Size>(sizeMembers)
const readFormat: Read<Banner> = (scan, banner) => {
  if (banner.format !== null) return
  banner.format = { w: undefined, h: undefined }
  scan.object(sizeKeys, banner.format)
}
const bannerKeys = new KeyTable<Banner>({
  ...sizeMembers,
  format: (scan, banner) => scan.array(readFormat, banner),
})

const videoKeys = new KeyTable<VideoFacts>({ ...durationMembers, ...sizeMembers }, (video, key) => {
  // The size is a feature of the model. Eligibility does not depend on it.
  if (key !== 'w' && key !== 'h') markAmbiguous(video)
})
const audioKeys = new KeyTable<DurationFloors>(durationMembers, markAmbiguous)

const impKeys = new KeyTable<ImpFacts>(
  {
    id: (scan, imp) => {
      const value = scan.leaf()
      imp.id = typeof value === 'string' ? value : undefined
    },
    ...floorMembers,
    pmp: (scan, imp) => scan.object(pmpKeys, imp),
    banner: (scan, imp) => {
      if (scan.isNull) return
      imp.banner = { w: undefined, h: undefined, format: null }
      scan.object(bannerKeys, imp.banner)
    },
    video: (scan, imp) => {
      if (scan.isNull) return
      imp.video = new VideoFacts()
      scan.object(videoKeys, imp.video)
    },
    audio: (scan, imp) => {
      if (scan.isNull) return
      imp.audio = new DurationFloors()
      scan.object(audioKeys, imp.audio)
    },
    native: (scan, imp) => {
      imp.native = !scan.isNull
    },
    tagid: (scan, imp) => {
      imp.placement = textOf(scan.leaf())
    },
  },
  (imp, key) => {
    // The placement is a feature of the model. Eligibility does not depend on it.
    if (key !== 'tagid') imp.ambiguous = true
  },
)

const readImp: Read<RequestFacts> = (scan, request) => {
  scan.steps += objectSteps
  const imp = new ImpFacts()
  scan.object(impKeys, imp)
  if (imp.id === undefined) return
  const duplicate = request.imps.get(imp.id)
  if (duplicate !== undefined) duplicate.ambiguous = true
  else request.imps.set(imp.id, imp)
}

const publisherKeys = new KeyTable<RequestFacts>(
  {
    id: (scan, facts) => {
      facts.publisher = textOf(scan.leaf())
    },
  },
  markAmbiguous,
)
const publisher: Read<RequestFacts> = (scan, facts) => scan.object(publisherKeys, facts)

const domain: Read<RequestFacts> = (scan, facts) => {
  const name = textOf(scan.leaf())
  if (name !== undefined) facts.domains.push(name.toLowerCase())
}
const app: Read<RequestFacts> = (scan, facts) => {
  const value = scan.leaf()
  const name = textOf(value) ?? numberOf(value)
  if (name !== undefined) facts.apps.push(String(name))
}
const page: Read<RequestFacts> = (scan, facts) => {
  facts.page = textOf(scan.leaf()) ?? facts.page
}

const siteKeys = new KeyTable<RequestFacts>({ domain, page, publisher }, markAmbiguous)
const appKeys = new KeyTable<RequestFacts>(
  { bundle: app, id: app, domain, publisher },
  markAmbiguous,
)
const doohKeys = new KeyTable<RequestFacts>({ id: app, domain, publisher }, markAmbiguous)
const geoKeys = new KeyTable<RequestFacts>({
  country: (scan, facts) => {
    facts.country = textOf(scan.leaf())
  },
})
const deviceKeys = new KeyTable<RequestFacts>({
  devicetype: (scan, facts) => {
    const value = scan.leaf()
    if (typeof value === 'number') facts.device = String(value)
  },
  geo: (scan, facts) => scan.object(geoKeys, facts),
})
const homeKeys = new KeyTable<RequestFacts>({
  country: (scan, facts) => {
    facts.homeCountry = textOf(scan.leaf())
  },
})
/** Of a user nothing else is read. */
const userKeys = new KeyTable<RequestFacts>({ geo: (scan, facts) => scan.object(homeKeys, facts) })

/** The members of a BidRequest. */
export const requestMembers: Readonly<Record<string, Read<RequestFacts>>> = {
  id: (scan, facts) => {
    facts.id = textOf(scan.leaf()) ?? ''
  },
  test: (scan, facts) => {
    facts.test = flagOf(scan.leaf())
  },
  at: (scan, facts) => {
    facts.auctionType = numberOf(scan.leaf())
  },
  imp: (scan, facts) => {
    facts.impSent = true
    facts.impList = scan.isArray
    scan.array(readImp, facts)
  },
  site: (scan, facts) => scan.object(siteKeys, facts),
  app: (scan, facts) => scan.object(appKeys, facts),
  dooh: (scan, facts) => scan.object(doohKeys, facts),
  device: (scan, facts) => scan.object(deviceKeys, facts),
  user: (scan, facts) => scan.object(userKeys, facts),
}

/**
 * A key that is repeated makes the request ambiguous (CONTRACT 4.3).
 *
 * @param facts of the request, which become ambiguous
 * @param key a member of the top level
 */
export const repeatedMember = (facts: RequestFacts, key: string) => {
  // Device and country are features of the model. Eligibility does not depend on them.
  if (key !== 'device' && key !== 'user') facts.ambiguous = true
}

export const requestKeys = new KeyTable<RequestFacts>(requestMembers, repeatedMember)

/**
 * null: not UTF-8, not JSON, nested deeper than 1,000 levels, or not an object.
 *
 * @param body a BidRequest
 * @returns null: not UTF-8, not JSON, nested deeper than 1,000 levels, or not an object
 */
export function readRequest(body: Body): RequestFacts | null {
  const scan = createScanner(body)
  return scan === null ? null : readRequestFacts(scan)
}

/**
 * The same of an indexed request. The scanner of a long document leaves imps and deals to `readLists`.
 *
 * @param scan an indexed document, which must not change meanwhile
 * @returns null: the document is not an object
 */
export function readRequestFacts(scan: Scanner): RequestFacts | null {
  if (!scan.isObject) return null
  const facts = new RequestFacts()
  scan.object(requestKeys, facts)
  return facts
}
