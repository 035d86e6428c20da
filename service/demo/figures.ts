/** Results of a demo run, and the lines that it prints: the figures of the console, and what only the demo can know. */
import type { Kept, LiveIntegration } from '../../admin/fleet/live-schema.ts'
import { demoOpd, demoTraffic } from '../default-config.ts'
import type { Market } from './market.ts'
import { rates } from './supplier.ts'

interface Bid {
  id: string
  impid: string
  price: number
  nurl?: string
}
export interface BidResponse {
  id: string
  cur?: string
  seatbid: { bid: Bid[] }[]
}

interface Win {
  nurl: string
  /** In the bid's currency. */
  cleared: number
}

/** in_ba as the service wrote it into the notice; null if the bid was left unchanged. */
function inPrice(nurl: string | undefined): number | null {
  const text = nurl === undefined ? null : new URL(nurl).searchParams.get('in')
  return text === null || text.startsWith('$') ? null : Number(text)
}

/** Compares the results with the hidden market: what the unchanged bids would have won. */
export function createTally(market: Pick<Market, 'win'>) {
  const counts = { winsUnchanged: 0, keptWins: 0 }
  const best = (bids: Bid[], price: (bid: Bid) => number) =>
    bids.reduce((top, bid) => (price(bid) > price(top) ? bid : top))
  return {
    counts,
    /** Counts one response; returns the wins for which the platform gets a notice. */
    count(publisher: string, { id: auction, cur, seatbid }: BidResponse): Win[] {
      const rate = rates[cur ?? 'USD'] ?? 1
      const byImp = Map.groupBy(
        seatbid.flatMap((seat) => seat.bid),
        (bid) => bid.impid,
      )
      const wins: Win[] = []
      for (const [imp, bids] of byImp) {
        const before = (bid: Bid) => inPrice(bid.nurl) ?? bid.price
        const offer = (price: number) =>
          market.win({ auction, imp, publisher, price: price / rate })
        const unchanged = offer(before(best(bids, before))) !== null
        if (unchanged) counts.winsUnchanged++
        const winner = best(bids, (bid) => bid.price)
        if (offer(winner.price) === null) continue
        if (unchanged) counts.keptWins++
        // A bid that OPD left unchanged has no context, so the platform gets no notice.
        if (inPrice(winner.nurl) !== null) wins.push({ nurl: winner.nurl!, cleared: winner.price })
      }
      return wins
    },
  }
}

/** Of today, from the report of the console. Amounts are in currency units. */
interface Today {
  decided: number
  wins: number
  revenue: string
  margin: string
  currency: string
}

/** What the console shows of an integration. */
export interface ConsoleFigures {
  live: LiveIntegration
  today: Today | null
}

export interface Failures {
  failed: number
  noBids: number
}

const wholePercent = (share: number) => `${Math.round(share * 100)} %`
const percent = (share: number) => `${(share * 100).toFixed(1)} %`
const digits = (amount: number) => (Math.abs(amount) < 10 ? 4 : 2)
const money = (amount: number, currency: string) => `${currency} ${amount.toFixed(digits(amount))}`

function kept(rate: Kept | null): string {
  if (rate === null || !rate.known) return 'not known yet'
  return `${percent(rate.at)} (${percent(rate.lower)} to ${percent(rate.upper)}, floor ${percent(rate.floor)})`
}

function todayText({ decided, wins, revenue, margin, currency }: Today): string {
  const share = Number(revenue) === 0 ? 0 : Number(margin) / Number(revenue)
  return `today ${decided} bids, ${wins} wins, margin ${money(Number(margin), currency)} (${percent(share)} of revenue)`
}

/** Lines on one moment; the first has the figures of the console. */
export function summary(
  { live, today }: ConsoleFigures,
  { counts }: Pick<ReturnType<typeof createTally>, 'counts'>,
  { failed, noBids }: Failures,
): string[] {
  const [mode] = live.modes
  const uplift = mode?.uplift ?? null
  const measured = mode?.kept?.known === true
  return [
    today === null ? 'today no bids yet' : todayText(today),
    `  kept wins ${kept(mode?.kept ?? null)} | kept spend ${kept(mode?.keptSpend ?? null)}`,
    `  uplift ${uplift === null || !measured ? 'not known yet' : `${today?.currency ?? ''} ${uplift.at.toFixed(4)} for 1,000 bids (${uplift.lower.toFixed(4)} to ${uplift.upper.toFixed(4)})`}`,
    `  in truth ${counts.winsUnchanged === 0 ? 'no wins yet' : `${percent(counts.keptWins / counts.winsUnchanged)} of the wins are kept`}${failed > 0 ? ` | ${failed} requests failed` : ''}${noBids > 0 ? ` | ${noBids} requests without a bid` : ''}`,
  ]
}

/** What happens in the demo, and what its figures mean. `console`: where the console shows the same figures. */
export function story(console: string): string {
  const { rate, noticeDelay } = demoTraffic
  const { holdout, minWinRate, minSpend, explore } = demoOpd
  return `What happens here
  ${rate} bid requests a second go to /bid/demo. A built-in supplier answers them, and a hidden market decides which bids win.
  ${wholePercent(1 - holdout)} of the auctions are priced: the model lowers bids, and keeps at least ${wholePercent(minWinRate)} of the wins and ${wholePercent(minSpend)} of the spend.
  ${wholePercent(holdout)} are the holdout: their bids keep their prices, to measure the rest. ${wholePercent(explore)} explore a random price.
  A win notice comes ${noticeDelay / 1000} s after its bid on average; 3 % are lost, and 1 % come twice. A bid without a notice for 20 s is a loss.
What the figures mean
  today       bids that OPD decided since midnight, their wins, and revenue minus cleared prices of these wins
  kept wins   win rate of priced bids divided by that of the holdout, with a 95 % interval: 100 % loses no win
  kept spend  the same, where each win weighs as much as its price: expensive wins count more
  uplift      margin of priced bids minus that of the holdout, for 1,000 bids
  in truth    what the hidden market says of this run: the share of wins at full price that the lower prices still win
The console shows them, too, up to 20 s later: ${console}
`
}
