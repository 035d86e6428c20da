/**
 * Markets that nothing was tuned on. `pacing`: rivals with budgets that are empty by the evening, who bid more where they know
 * the user. `ladder`: sellers whose buyers bid on a ladder of a few prices, and whose reserve price is not announced.
 */
import { day, firstPriceOffer, type Market, newFacts, normalBelow, usualEvery } from '../market.ts'
import { rankOf, source, zipf } from '../random.ts'

export function pacing(seed: number): Market {
  const root = source(seed)
  const [world, draw] = [root.fork(1), root.fork(2)]
  const traffic = zipf(60, 0.9)
  const sites = Array.from({ length: 60 }, (_each, n) => ({
    name: `site-${n}`,
    supplier: `ssp-${n % 3}`,
    level: 0.6 * world.normal(),
    reach: 0.75 + 0.2 * world.uniform(),
    /** Share of the day after which each rival has spent its budget; above 1: it never has. */
    rivals: Array.from({ length: 3 }, () => ({
      level: -0.5 + 0.3 * world.normal(),
      spread: 0.15 + 0.3 * world.uniform(),
      until: 0.4 + world.uniform(),
    })),
  }))
  const facts = newFacts()
  let site = sites[0]!
  let [part, known] = [0, 0]
  const offer = firstPriceOffer(facts, (price) => {
    const x = Math.log(price) - site.level - 0.5 * known
    let below = site.reach
    for (const { level, spread, until } of site.rivals)
      if (part < until) below *= normalBelow((x - level) / spread)
    return below
  })
  return {
    name: 'pacing',
    every: usualEvery,
    offer(_n, now) {
      site = sites[rankOf(traffic, draw.uniform())]!
      part = (now % day) / day
      // What is known of a user moves its price, and that of the rivals half as much.
      known = 0.4 * draw.normal()
      const dsp = draw.below(4)
      facts.inBa = Math.exp(site.level + known + 0.1 * dsp)
      facts.supplier = site.supplier
      facts.publisher = site.name
      facts.device = draw.uniform() < 0.6 ? 'phone' : 'desktop'
      facts.format = 'native'
      facts.dsp = `dsp-${dsp}`
      return offer
    },
  }
}

export function ladder(seed: number): Market {
  const root = source(seed)
  const [world, draw] = [root.fork(1), root.fork(2)]
  const traffic = zipf(200, 0.7)
  const sellers = Array.from({ length: 200 }, (_each, n) => {
    const step = world.pick([0.05, 0.1, 0.2])
    const rungs = Array.from({ length: 6 }, () => step * (2 + world.below(12))).sort(
      (one, other) => one - other,
    )
    const shares = rungs.map(() => world.uniform())
    const sum = shares.reduce((total, each) => total + each, 0.3)
    return {
      name: `seller-${n}`,
      supplier: `exchange-${n % 4}`,
      rungs,
      shares: shares.map((share) => (0.9 * share) / sum),
      reserve: world.uniform() < 0.5 ? rungs[1]! : 0,
      value: rungs[3]! * (1.1 + 0.5 * world.uniform()),
    }
  })
  const facts = newFacts()
  let seller = sellers[0]!
  const wins = (price: number) => {
    if (price < seller.reserve) return 0
    let below = 0.04
    for (const [n, rung] of seller.rungs.entries())
      if (rung <= price + 1e-9) below += seller.shares[n]!
    return below
  }
  const offer = firstPriceOffer(facts, wins, {
    jumps: () => [seller.reserve, ...seller.rungs].filter((price) => price > 0),
  })
  return {
    name: 'ladder',
    every: usualEvery,
    offer() {
      seller = sellers[rankOf(traffic, draw.uniform())]!
      const size = draw.below(3)
      facts.inBa = Math.round(100 * seller.value * Math.exp(0.25 * draw.normal())) / 100
      facts.supplier = seller.supplier
      facts.publisher = seller.name
      facts.placement = `${seller.name}/${size}`
      facts.country = draw.uniform() < 0.7 ? 'DEU' : 'AUT'
      facts.format = 'banner'
      facts.size = ['300x250', '728x90', '970x250'][size]!
      return offer
    },
  }
}
