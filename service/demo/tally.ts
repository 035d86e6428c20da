/** Results of a demo run, compared with the hidden market: what the unchanged bids would have won. */
import { rates } from './bids.ts'
import type { Market } from './market.ts'

interface AnsweredBid {
  id: string
  impid: string
  price: number
  nurl?: string
}
export interface Answered {
  id: string
  cur?: string
  seatbid: { bid: AnsweredBid[] }[]
}

interface Win {
  nurl: string
  /** In the bid's currency. */
  cleared: number
}

export interface Tally {
  counts: {
    answers: number
    bids: number
    lowered: number
    wins: number
    winsUnchanged: number
    keptWins: number
  }
  /** Counts one response; returns the wins for which the platform gets a notice. */
  answer(publisher: string, answered: Answered): Win[]
}

/** in_ba as the service wrote it into the notice; null if the bid was left unchanged. */
function inPrice(nurl: string | undefined): number | null {
  const text = nurl === undefined ? null : new URL(nurl).searchParams.get('in')
  return text === null || text.startsWith('$') ? null : Number(text)
}

export function createTally(market: Pick<Market, 'win'>): Tally {
  const counts = { answers: 0, bids: 0, lowered: 0, wins: 0, winsUnchanged: 0, keptWins: 0 }
  const best = (bids: AnsweredBid[], price: (bid: AnsweredBid) => number) =>
    bids.reduce((top, bid) => (price(bid) > price(top) ? bid : top))
  return {
    counts,
    answer(publisher, answered) {
      counts.answers++
      const rate = rates[answered.cur ?? 'USD'] ?? 1
      const byImp = Map.groupBy(
        answered.seatbid.flatMap((seat) => seat.bid),
        (bid) => bid.impid,
      )
      const wins: Win[] = []
      for (const [imp, bids] of byImp) {
        const before = (bid: AnsweredBid) => inPrice(bid.nurl) ?? bid.price
        const offer = (price: number) =>
          market.win({ auction: answered.id, imp, publisher, price: price / rate })
        counts.bids += bids.length
        counts.lowered += bids.filter((bid) => bid.price < before(bid)).length
        const unchanged = offer(before(best(bids, before))) !== null
        if (unchanged) counts.winsUnchanged++
        const winner = best(bids, (bid) => bid.price)
        if (offer(winner.price) === null) continue
        counts.wins++
        if (unchanged) counts.keptWins++
        // A bid that OPD left unchanged has no context, so the platform gets no notice.
        if (inPrice(winner.nurl) !== null) wins.push({ nurl: winner.nurl!, cleared: winner.price })
      }
      return wins
    },
  }
}
