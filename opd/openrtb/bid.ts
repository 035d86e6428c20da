/** The members of a bid that eligibility and features depend on, in a bid response or a standalone call. */
import type { Read } from '../json/scanner.ts'

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
