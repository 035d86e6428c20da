/** The members of a bid that eligibility and features depend on, in a bid response or a standalone call. */
import type { Read } from '../json/scanner.ts'
import type { BidFeatures } from '../shared/reasons.ts'
import type { DealFacts, ImpFacts, RequestFacts, Size } from './facts.ts'

/** Values as they were sent, of any type. `undefined`: absent. */
export class BidTerms {
  impid: unknown = undefined
  dealid: unknown = undefined
  mtype: unknown = undefined
  dur: unknown = undefined
  width: unknown = undefined
  height: unknown = undefined
  /** At most `maxDomains`; `moreDomains`: there are others. */
  adomain: string[] | null = null
  moreDomains = false

  /** @param name as it was sent; dropped if there are `maxDomains` already */
  addDomain(name: string): void {
    if (this.adomain === null) this.adomain = [name]
    else if (this.adomain.length < maxDomains) this.adomain.push(name)
    else this.moreDomains = true
  }
}

const maxDomains = 1000

export interface Bid extends BidTerms {
  readonly bidId: string
  readonly seatName: string | null
  /** The text of `price`; null: not a JSON number. */
  readonly priceText: string | null
  /** null: of a wrong type. */
  readonly currency: string | null
  /** A key that eligibility depends on is repeated. */
  readonly ambiguous: boolean
}

type LeafField = Exclude<keyof BidTerms, 'adomain' | 'moreDomains' | 'addDomain'>

const leafField =
  (field: LeafField): Read<BidTerms> =>
  (scan, bid) => {
    bid[field] = scan.leaf()
  }

const readDomain: Read<BidTerms> = (scan, bid) => {
  const value = scan.leaf()
  if (typeof value === 'string') bid.addDomain(value)
}

export const bidMembers: Readonly<Record<string, Read<BidTerms>>> = {
  impid: leafField('impid'),
  dealid: leafField('dealid'),
  mtype: leafField('mtype'),
  dur: leafField('dur'),
  w: leafField('width'),
  h: leafField('height'),
  adomain: (scan, bid) => (scan.isArray ? scan.array(readDomain, bid) : readDomain(scan, bid)),
}

/** Features of a bid for the model. Never a user, a device id or an address (CONTRACT 5). */

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

/**
 * The size of the creative, else of the placement, else the first size that the placement accepts; of a video the size of the
 * player.
 */
function sizeOf(
  { width, height }: Bid,
  imp: ImpFacts | null,
  format: BidFeatures['format'],
): string | undefined {
  if (typeof width === 'number' && typeof height === 'number' && width > 0 && height > 0)
    return `${width}x${height}`
  if (format === 'video') return sizeText(imp?.video)
  return sizeText(imp?.banner) ?? sizeText(imp?.banner?.format)
}

/** A text of at most this length is a feature as it is. */
const maxLength = 1024
const keptOfEnd = 256

/**
 * Features are hashed for each bid whose terms differ from those of the bid before. A seat of 2 MB with bids of alternating types
 * would take 15 ms for each of them, so what is longer than any name is shortened in constant time.
 */
function shortened(text: string | undefined): string | undefined {
  if (text === undefined || text.length <= maxLength) return text
  const { length } = text
  const end = `~${length}~${text.slice(length - keptOfEnd)}`
  return text.slice(0, maxLength - end.length) + end
}

const auctionOf = (auctionType: number | undefined): 1 | 2 | undefined =>
  auctionType === 1 || auctionType === 2 ? auctionType : undefined

export function featuresOf(
  bid: Bid,
  mtype: number | undefined,
  request: RequestFacts,
  imp: ImpFacts | null,
  deal: DealFacts | null,
): BidFeatures {
  const format = formatOf(mtype, imp)
  // All features have the same fields, absent ones included, so that V8 reads objects of one shape.
  return {
    publisher: shortened(request.publisher),
    domain: shortened(request.domains[0] ?? request.host ?? request.apps[0]),
    placement: shortened(imp?.placement),
    country: shortened(request.country ?? request.homeCountry),
    device: request.device,
    format,
    size: sizeOf(bid, imp, format),
    dsp: undefined,
    seat: shortened(bid.seatName ?? undefined),
    deal: shortened(deal?.id),
    auction: auctionOf(deal?.auctionType ?? request.auctionType),
  }
}
