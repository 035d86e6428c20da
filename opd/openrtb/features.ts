/** Features of a bid for the model. Never a user, a device id or an address (CONTRACT 5). */
import type { BidFeatures } from '../shared/reasons.ts'
import type { Bid } from './bid.ts'
import type { DealFacts, ImpFacts, RequestFacts, Size } from './facts.ts'

const formats = [undefined, 'banner', 'video', 'audio', 'native'] as const

function formatOf(mtype: number | undefined, imp: ImpFacts | null): BidFeatures['format'] {
  if (mtype !== undefined || imp === null) return formats[mtype ?? 0]
  if (imp.banner !== null) return 'banner'
  if (imp.video !== null) return 'video'
  if (imp.native) return 'native'
  return imp.audio === null ? undefined : 'audio'
}

const sizeText = (size: Size | null | undefined) =>
  size?.w === undefined || size.h === undefined ? undefined : `${size.w}x${size.h}`

/** The size of the creative, else of the placement, else the first size that the placement accepts. */
function sizeOf({ width, height }: Bid, imp: ImpFacts | null): string | undefined {
  if (typeof width === 'number' && typeof height === 'number' && width > 0 && height > 0)
    return `${width}x${height}`
  return sizeText(imp?.banner) ?? sizeText(imp?.banner?.format)
}

const auctionOf = (at: number | undefined): 1 | 2 | undefined =>
  at === 1 || at === 2 ? at : undefined

export function featuresOf(
  bid: Bid,
  mtype: number | undefined,
  request: RequestFacts,
  imp: ImpFacts | null,
  deal: DealFacts | null,
): BidFeatures {
  // All features have the same fields, absent ones included, so that V8 reads objects of one shape.
  return {
    publisher: request.publisher,
    domain: request.domains[0] ?? request.host ?? request.apps[0],
    placement: imp?.placement,
    country: request.country,
    device: request.device,
    format: formatOf(mtype, imp),
    size: sizeOf(bid, imp),
    dsp: undefined,
    seat: bid.seatName ?? undefined,
    deal: deal?.id,
    auction: auctionOf(deal?.at ?? request.at),
  }
}
