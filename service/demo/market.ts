/**
 * The hidden side of the demo: what the others in the auction bid. The service never sees it; it has
 * to find out from win notices alone.
 */
import { fnv1a } from '../../opd/base/hash.ts'
import { mulberry32, normal } from '../../opd/base/random.ts'

/** Documents show bids of the demo supplier, so equal requests get equal bids in every version. */
export function hash(text: string, seed: number): number {
  let value = fnv1a(text, 0x811c9dc5 ^ seed)
  value = Math.imul(value ^ (value >>> 16), 0x7feb352d)
  value = Math.imul(value ^ (value >>> 15), 0x846ca68b)
  return (value ^ (value >>> 16)) >>> 0
}

export interface Publisher {
  id: string
  domain: string
  country: string
  /** ln of the median price of our bids, and of the best competitor, CPM in USD. */
  value: number
  competitor: number
  /** Standard deviation of the competitor's ln: narrow curves can be cut close, wide ones cannot. */
  spread: number
}

const names = [
  'news',
  'sport',
  'cook',
  'cars',
  'travel',
  'games',
  'weather',
  'music',
  'home',
  'maps',
]
const countries = ['USA', 'DEU', 'GBR', 'FRA', 'ESP', 'BRA']

/** Thirty publishers; the first ones have most of the traffic. */
export function publishers(seed: number): Publisher[] {
  const random = mulberry32(hash('publishers', seed))
  return Array.from({ length: 30 }, (_, index) => {
    const value = Math.log(1.2) + 0.6 * normal(random)
    return {
      id: `pub-${index + 1}`,
      domain: `${names[index % names.length]}${index < names.length ? '' : Math.floor(index / names.length) + 1}.example`,
      country: countries[Math.floor(random() * countries.length)]!,
      value,
      competitor: value - 0.35 - 0.5 * random(),
      spread: 0.1 + 0.25 * random(),
    }
  })
}

/** Share of impressions that go to someone's deal at any price. */
const reserved = 0.25

interface Offer {
  /** One impression on sale: BidRequest.id and the imp's id. */
  auction: string
  imp: string
  publisher: string
  /** CPM in USD. */
  price: number
}

export type Market = ReturnType<typeof createMarket>

export function createMarket(seed: number) {
  const list = publishers(seed)
  const byId = new Map(list.map((publisher) => [publisher.id, publisher]))
  const publisher = (id: string) => byId.get(id) ?? list[hash(id, seed) % list.length]!
  const draw = (what: string, auction: string, imp: string) =>
    normal(mulberry32(hash(`${what} ${auction} ${imp}`, seed)))
  return {
    publishers: list as readonly Publisher[],
    /** The price that a bidder of the supplier offers for this impression, CPM in USD. */
    value: (auction: string, imp: string, id: string, bidder: number): number =>
      Math.exp(publisher(id).value + 0.2 * draw(`bidder ${bidder}`, auction, imp)),
    /** First price: above the best competitor the bid wins and pays what it says; else null. */
    win({ auction, imp, publisher: id, price }: Offer): { cleared: number } | null {
      const { competitor, spread } = publisher(id)
      if (hash(`reserved ${auction} ${imp}`, seed) < reserved * 2 ** 32) return null
      const best = Math.exp(competitor + spread * draw('competitor', auction, imp))
      return price > best ? { cleared: price } : null
    },
  }
}
