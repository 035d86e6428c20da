/**
 * Markets that are not made like the model. `heavyTailed`: few strong rivals a publisher who come and leave for hours, Pareto
 * tails, a weekly cycle. `chasing`: 750 sellers of 200 bids a day, whose reserve prices follow what they were paid.
 */
import { day, firstPriceOffer, type Market, newFacts, normalBelow, usualEvery } from '../market.ts'
import { rankOf, source, zipf } from '../random.ts'

/** A week passes in a run of 150,000 bids. */
const weekPart = (now: number) => (now % day) / day

interface Rival {
  level: number
  spread: number
  /** Shares of the run between which it is present, over and over. */
  period: number
  phase: number
}

export function heavyTailed(seed: number): Market {
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const traffic = zipf(120, 0.8)
  const publishers = Array.from({ length: 120 }, (_each, n) => ({
    supplier: `net-${world.below(4)}`,
    name: `site-${n}`,
    level: 0.5 * world.normal(),
    tail: 1.1 + world.uniform(),
    tailShare: 0.1 + 0.25 * world.uniform(),
    rivals: Array.from(
      { length: 2 + world.below(3) },
      (): Rival => ({
        level: -0.3 + 0.35 * world.normal(),
        spread: 0.08 + 0.3 * world.uniform(),
        period: 0.02 + 0.2 * world.uniform(),
        phase: world.uniform(),
      }),
    ),
  }))
  const facts = newFacts()
  let at = publishers[0]!
  let present: Rival[] = []
  let shift = 0

  const offer = firstPriceOffer(facts, (price) => {
    if (price < facts.floor) return 0
    const x = Math.log(price) - at.level - shift
    let below = 0.94
    for (const { level, spread } of present) below *= normalBelow((x - level) / spread)
    // The rest of the competition: a Pareto tail above e^-1.
    const tail = x < -1 ? 1 : Math.exp(-at.tail * (x + 1))
    return below * (1 - at.tailShare * tail) * (1 - 0.5 * at.tailShare * Math.min(1, tail))
  })
  return {
    name: 'heavy tails',
    every: usualEvery,
    offer(_n, now) {
      at = publishers[rankOf(traffic, draw.uniform())]!
      const week = weekPart(now)
      // Two days of seven are quiet.
      shift = (week > 5 / 7 ? -0.3 : 0) + 0.15 * Math.sin(14 * Math.PI * week)
      present = at.rivals.filter(({ period, phase }) => (week / period + phase) % 1 < 0.65)
      const dsp = draw.below(5)
      facts.inBa = Math.exp(at.level + 0.1 * dsp + 0.4 * draw.normal())
      facts.floor = 0.15 * Math.exp(at.level)
      facts.supplier = at.supplier
      facts.publisher = at.name
      facts.placement = `${at.name}/a`
      facts.format = 'video'
      facts.dsp = `dsp-${dsp}`
      return offer
    },
  }
}

export function chasing(seed: number): Market {
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const sellers = Array.from({ length: 750 }, (_each, n) => ({
    supplier: `exchange-${n % 10}`,
    name: `seller-${n}`,
    level: 0.6 * world.normal(),
    competition: -0.35 + 0.25 * world.normal(),
    spread: 0.2 + 0.3 * world.uniform(),
    /** Share of what it was paid that it asks for, and what that was. */
    asks: world.uniform() < 0.5 ? 0.7 + 0.2 * world.uniform() : 0,
    paid: 0,
  }))
  const facts = newFacts()
  let seller = sellers[0]!
  let mean = 0
  const offer = firstPriceOffer(facts, (price) =>
    price < facts.floor ? 0 : 0.05 + 0.87 * normalBelow((Math.log(price) - mean) / seller.spread),
  )
  return {
    name: 'chasing reserves',
    every: usualEvery,
    offer(_n, now) {
      seller = sellers[draw.below(sellers.length)]!
      const week = weekPart(now)
      const size = draw.below(3)
      const lnIn = seller.level + 0.2 * size + 0.4 * draw.normal()
      mean = 0.4 * lnIn + 0.6 * (seller.level + 0.2 * size) + seller.competition
      mean += (week > 5 / 7 ? -0.25 : 0) + 0.1 * Math.sin(14 * Math.PI * week)
      facts.inBa = Math.round(Math.exp(lnIn) * 1e4) / 1e4
      facts.floor = Math.min(0.97 * facts.inBa, Math.round(seller.asks * seller.paid * 100) / 100)
      facts.supplier = seller.supplier
      facts.publisher = seller.name
      facts.placement = `${seller.name}/a`
      facts.format = 'banner'
      facts.size = ['300x250', '728x90', '970x250'][size]!
      return offer
    },
    sees(price, won) {
      if (won) seller.paid += (price - seller.paid) * 0.1
    },
  }
}
