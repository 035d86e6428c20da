/** `imp[]` of a BidRequest: floors, deals, what is offered. */
import { listOf, objectOf, type Read, Shape } from '../json/scanner.ts'
import { DealFacts, ImpFacts, type RequestFacts, type Size, TimedFacts } from './facts.ts'
import { doubt, durationMembers, floorMembers, isNull, leaf, numberOf, textOf } from './readers.ts'

const dealShape = new Shape<DealFacts>(
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
    // Whose terms these are cannot be told: no deal of the imp is safe.
    if (key === 'id') deal.imp.ambiguous = true
  },
)

const readDeal: Read<ImpFacts> = (scan, at, imp) => {
  const deal = new DealFacts(imp)
  const end = objectOf(scan, at, dealShape, deal)
  if (deal.id === '') return end
  const twin = imp.deals.get(deal.id)
  if (twin !== undefined) twin.ambiguous = true
  else imp.deals.set(deal.id, deal)
  return end
}

const pmpShape = new Shape<ImpFacts>(
  { deals: (scan, at, imp) => listOf(scan, at, readDeal, imp) },
  doubt,
)

const sizeMembers = {
  w: leaf<Size>((size, value) => {
    size.w = numberOf(value)
  }),
  h: leaf<Size>((size, value) => {
    size.h = numberOf(value)
  }),
}
const sizeShape = new Shape<Size>(sizeMembers)
const readFormat: Read<ImpFacts> = (scan, at, imp) => {
  if (imp.format !== null) return scan.skip(at)
  imp.format = { w: undefined, h: undefined }
  return objectOf(scan, at, sizeShape, imp.format)
}

interface Banner extends Size {
  imp: ImpFacts
}
const bannerShape = new Shape<Banner>({
  ...sizeMembers,
  format: (scan, at, { imp }) => listOf(scan, at, readFormat, imp),
})

const timedShape = new Shape<TimedFacts>(
  durationMembers<TimedFacts>(({ imp }) => imp),
  (timed) => doubt(timed.imp),
)

const timed =
  (field: 'video' | 'audio'): Read<ImpFacts> =>
  (scan, at, imp) => {
    if (isNull(scan, at)) return scan.skip(at)
    imp[field] = new TimedFacts(imp)
    return objectOf(scan, at, timedShape, imp[field])
  }

const impShape = new Shape<ImpFacts>(
  {
    id: leaf((imp, value) => {
      imp.id = typeof value === 'string' ? value : undefined
    }),
    ...floorMembers,
    pmp: (scan, at, imp) => objectOf(scan, at, pmpShape, imp),
    banner: (scan, at, imp) => {
      if (isNull(scan, at)) return scan.skip(at)
      const banner = { w: undefined, h: undefined, imp }
      imp.banner = banner
      return objectOf(scan, at, bannerShape, banner)
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
    // A placement is a feature of the model and decides nothing.
    if (key !== 'tagid') imp.ambiguous = true
  },
)

export const readImp: Read<RequestFacts> = (scan, at, request) => {
  const imp = new ImpFacts()
  const end = objectOf(scan, at, impShape, imp)
  if (imp.id === undefined) return end
  const twin = request.imps.get(imp.id)
  if (twin !== undefined) twin.ambiguous = true
  else request.imps.set(imp.id, imp)
  return end
}
