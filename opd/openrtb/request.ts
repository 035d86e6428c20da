/** Reads the bid request, once for each response with a macro. */
import {
  type Body,
  createScanner,
  KeyTable,
  type Read,
  readArray,
  readObject,
  type Scanner,
} from '../json/scanner.ts'
import { BRACE, BRACKET, malformed } from '../json/syntax.ts'
import { DealFacts, ImpFacts, RequestFacts, type Size, TimedFacts } from './facts.ts'
import {
  durationMembers,
  floorMembers,
  isNull,
  leaf,
  markAmbiguous,
  numberOf,
  textOf,
} from './readers.ts'

const dealKeys = new KeyTable<DealFacts>(
  {
    id: leaf((deal, value) => {
      deal.id = textOf(value) ?? ''
    }),
    at: leaf((deal, value) => {
      deal.at = numberOf(value)
    }),
    guar: leaf((deal, value) => {
      deal.guaranteed = value === true || numberOf(value) === 1
    }),
    ...floorMembers,
    ...durationMembers<DealFacts>((deal) => deal),
  },
  (deal, key) => {
    deal.ambiguous = true
    // With a repeated id, the terms could belong to any deal of the imp.
    if (key === 'id') deal.imp.ambiguous = true
  },
)

const readDeal: Read<ImpFacts> = (scan, at, imp) => {
  const deal = new DealFacts(imp)
  const end = readObject(scan, at, dealKeys, deal)
  if (deal.id === '') return end
  imp.deals ??= new Map()
  const duplicate = imp.deals.get(deal.id)
  if (duplicate !== undefined) duplicate.ambiguous = true
  else imp.deals.set(deal.id, deal)
  return end
}

const pmpKeys = new KeyTable<ImpFacts>(
  { deals: (scan, at, imp) => readArray(scan, at, readDeal, imp) },
  markAmbiguous,
)

const sizeMembers = {
  w: leaf<Size>((size, value) => {
    size.w = numberOf(value)
  }),
  h: leaf<Size>((size, value) => {
    size.h = numberOf(value)
  }),
}
const sizeKeys = new KeyTable<Size>(sizeMembers)
const readFormat: Read<ImpFacts> = (scan, at, imp) => {
  if (imp.format !== null) return scan.skip(at)
  imp.format = { w: undefined, h: undefined }
  return readObject(scan, at, sizeKeys, imp.format)
}

interface Banner extends Size {
  imp: ImpFacts
}
const bannerKeys = new KeyTable<Banner>({
  ...sizeMembers,
  format: (scan, at, { imp }) => readArray(scan, at, readFormat, imp),
})

const timedKeys = new KeyTable<TimedFacts>(
  durationMembers<TimedFacts>(({ imp }) => imp),
  (timed) => markAmbiguous(timed.imp),
)

const timed =
  (field: 'video' | 'audio'): Read<ImpFacts> =>
  (scan, at, imp) => {
    if (isNull(scan, at)) return scan.skip(at)
    imp[field] = new TimedFacts(imp)
    return readObject(scan, at, timedKeys, imp[field])
  }

const impKeys = new KeyTable<ImpFacts>(
  {
    id: leaf((imp, value) => {
      imp.id = typeof value === 'string' ? value : undefined
    }),
    ...floorMembers,
    pmp: (scan, at, imp) => readObject(scan, at, pmpKeys, imp),
    banner: (scan, at, imp) => {
      if (isNull(scan, at)) return scan.skip(at)
      const banner = { w: undefined, h: undefined, imp }
      imp.banner = banner
      return readObject(scan, at, bannerKeys, banner)
    },
    video: timed('video'),
    audio: timed('audio'),
    native: (scan, at, imp) => {
      imp.native = !isNull(scan, at)
      return scan.skip(at)
    },
    tagid: leaf((imp, value) => {
      imp.placement = textOf(value)
    }),
  },
  (imp, key) => {
    // The placement is a feature of the model. Eligibility does not depend on it.
    if (key !== 'tagid') imp.ambiguous = true
  },
)

const readImp: Read<RequestFacts> = (scan, at, request) => {
  const imp = new ImpFacts()
  const end = readObject(scan, at, impKeys, imp)
  if (imp.id === undefined) return end
  const duplicate = request.imps.get(imp.id)
  if (duplicate !== undefined) duplicate.ambiguous = true
  else request.imps.set(imp.id, imp)
  return end
}

const publisherKeys = new KeyTable<RequestFacts>(
  {
    id: leaf((facts, value) => {
      facts.publisher = textOf(value)
    }),
  },
  markAmbiguous,
)
const publisher: Read<RequestFacts> = (scan, at, facts) =>
  readObject(scan, at, publisherKeys, facts)

const domain = leaf<RequestFacts>((facts, value) => {
  const name = textOf(value)
  if (name !== undefined) facts.domains.push(name.toLowerCase())
})
const app = leaf<RequestFacts>((facts, value) => {
  const name = textOf(value) ?? numberOf(value)
  if (name !== undefined) facts.apps.push(String(name))
})

const page = leaf<RequestFacts>((facts, value) => {
  facts.page = textOf(value) ?? facts.page
})

const object =
  (keys: KeyTable<RequestFacts>): Read<RequestFacts> =>
  (scan, at, facts) =>
    readObject(scan, at, keys, facts)

const geo = new KeyTable<RequestFacts>({
  country: leaf((facts, value) => {
    facts.country = textOf(value)
  }),
})

const members: Readonly<Record<string, Read<RequestFacts>>> = {
  id: leaf((facts, value) => {
    facts.id = textOf(value) ?? ''
  }),
  test: leaf((facts, value) => {
    facts.test = value === true || numberOf(value) === 1
  }),
  at: leaf((facts, value) => {
    facts.at = numberOf(value)
  }),
  imp: (scan, at, facts) => {
    facts.impSent = true
    facts.impList = scan.text.charCodeAt(at) === BRACKET
    return readArray(scan, at, readImp, facts)
  },
  site: object(new KeyTable<RequestFacts>({ domain, page, publisher }, markAmbiguous)),
  app: object(
    new KeyTable<RequestFacts>({ bundle: app, id: app, domain, publisher }, markAmbiguous),
  ),
  dooh: object(new KeyTable<RequestFacts>({ id: app, domain, publisher }, markAmbiguous)),
  device: object(
    new KeyTable<RequestFacts>({
      devicetype: leaf((facts, value) => {
        if (typeof value === 'number') facts.device = String(value)
      }),
      geo: object(geo),
    }),
  ),
}

const repeated = (facts: RequestFacts, key: string) => {
  // The device is a feature of the model. Eligibility does not depend on it.
  if (key !== 'device') facts.ambiguous = true
}

const requestKeyTable = new KeyTable<RequestFacts>(members, repeated)
/** A standalone call has members of the BidRequest in its body, or in the object `bidrequest`. */
const callKeys = new KeyTable<RequestFacts>(
  { ...members, bidrequest: object(requestKeyTable) },
  repeated,
)

const rootOf =
  (keys: KeyTable<RequestFacts>): Read<RequestFacts> =>
  (scan, at, facts) =>
    scan.text.charCodeAt(at) === BRACE ? scan.object(at, keys, facts) : malformed

const readRoot = rootOf(requestKeyTable)
const readCall = rootOf(callKeys)

/** null: not UTF-8, not JSON, nested deeper than 1,000 levels, or not an object. */
export function readRequest(body: Body): RequestFacts | null {
  const scan = createScanner(body)
  return scan === null ? null : factsOf(scan, readRoot)
}

/** The members of a BidRequest in a standalone call, in its body or in its `bidrequest`. */
export function readStandaloneRequest(scan: Scanner): RequestFacts | null {
  return factsOf(scan, readCall)
}

function factsOf(scan: Scanner, root: Read<RequestFacts>): RequestFacts | null {
  const facts = new RequestFacts()
  return scan.document(root, facts) ? facts : null
}
