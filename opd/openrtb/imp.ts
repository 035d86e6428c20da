/** Reads `imp[]` of a BidRequest: floors, deals and formats. */
import { KeyTable, type Read, readArray, readObject } from '../json/scanner.ts'
import { DealFacts, ImpFacts, type RequestFacts, type Size, TimedFacts } from './facts.ts'
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

export const readImp: Read<RequestFacts> = (scan, at, request) => {
  const imp = new ImpFacts()
  const end = readObject(scan, at, impKeys, imp)
  if (imp.id === undefined) return end
  const duplicate = request.imps.get(imp.id)
  if (duplicate !== undefined) duplicate.ambiguous = true
  else request.imps.set(imp.id, imp)
  return end
}
