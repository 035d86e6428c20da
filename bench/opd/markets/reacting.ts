/**
 * Markets that answer to what is sent: floors that follow the prices that won, competitors that hold their win rate.
 * The curve that grades a bid is the one at that moment; the oracle is graded beside it, so it is one that does not plan.
 */
import { firstPriceOffer, type Market, type Offer } from '../market.ts'
import { synthetic } from './synthetic.ts'

/** Share of the last winning prices that the floor of a publisher rises to. */
const floorShare = 0.6
/** How strongly competitors of a publisher raise their bids when they win less than they want. */
const rivalGain = 0.002

export function reacting(seed: number): Market {
  const under = synthetic(seed)
  /** By publisher: the mean of winning prices over in, and how far competitors have moved (log). */
  const paid = new Map<string, number>()
  const moved = new Map<string, number>()
  let inner: Offer
  let publisher = ''
  const facts = { ...under.offer(0, 0).facts }

  /** Competitors that bid e^move more win at a price what they would have won at e^-move of it. */
  const seen = (price: number) => price * Math.exp(-(moved.get(publisher) ?? 0))
  const wins = (price: number) => (price < facts.floor ? 0 : inner.wins(seen(price)))
  const offer = firstPriceOffer(facts, wins, {
    jumps() {
      const shift = Math.exp(moved.get(publisher) ?? 0)
      return Array.from(inner.jumps(), (price) => price * shift)
    },
  })

  return {
    name: 'reacting',
    every: under.every,
    offer(n, now) {
      inner = under.offer(n, now)
      publisher = inner.facts.publisher!
      Object.assign(facts, inner.facts)
      const follows = (paid.get(publisher) ?? 0) * floorShare * facts.inBa
      // A floor is a round number.
      facts.floor = Math.min(
        facts.inBa * 0.98,
        Math.max(facts.floor, Math.floor(follows * 20) / 20),
      )
      return offer
    },
    sees(price, won) {
      const factor = price / facts.inBa
      const before = paid.get(publisher) ?? factor
      if (won) paid.set(publisher, before + 0.01 * (factor - before))
      // Competitors want half of the auctions.
      const move = (moved.get(publisher) ?? 0) + rivalGain * ((won ? 1 : 0) - 0.5)
      moved.set(publisher, Math.max(-0.4, Math.min(0.4, move)))
    },
  }
}
