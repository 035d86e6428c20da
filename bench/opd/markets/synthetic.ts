/**
 * 6 suppliers, 300 publishers with Zipf traffic, log-normal competitors mixed with ones that bid round numbers, floors,
 * drift, a diurnal cycle, in-prices correlated with competition.
 */
import {
  day,
  firstPrice,
  type Market,
  Mixture,
  newFacts,
  type Offer,
  secondPrice,
  usualEvery,
} from '../market.ts'
import { rankOf, source, zipf } from '../random.ts'

const countries = ['US', 'DE', 'GB', 'FR', 'BR', 'JP', 'PL', 'IN'] as const
const sizes = ['300x250', '728x90', '320x50', '160x600', '970x250'] as const
const devices = ['desktop', 'mobile', 'tablet'] as const

interface SyntheticOptions {
  /** Share of auctions where the second price is paid. */
  second?: number
  /** At this bid, half of the publishers shift their competition by `shift` (log). */
  shiftAt?: number
  shift?: number
  /** From this bid the true win rate falls by `drop`. */
  dropAt?: number
  drop?: number
  /** Another set of publishers every this many milliseconds. */
  freshEvery?: number
}

interface Publisher {
  name: string
  supplier: number
  level: number
  competition: number
  spread: number
  second: number
  round: number
  grid: number
  floor: number
  phase: number
  shifts: boolean
  placements: { level: number; competition: number }[]
}

export function synthetic(seed: number, options: SyntheticOptions = {}): Market {
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const drifts = root.fork(3)
  const suppliers = 6
  const traffic = zipf(300, 1)
  const supplierLevel = Array.from({ length: suppliers }, () => 0.3 * world.normal())
  const supplierRound = Array.from({ length: suppliers }, () => 0.3 * world.uniform())
  const countryLevel = countries.map(() => 0.35 * world.normal())
  const dsps = Array.from({ length: 8 }, () => ({
    level: 0.25 * world.normal(),
    bid: 0.1 * world.normal(),
  }))
  const sizeLevel = sizes.map(() => 0.2 * world.normal())
  const deviceLevel = devices.map(() => 0.15 * world.normal())
  const publisher = (n: number): Publisher => ({
    name: `pub-${n}`,
    supplier: world.below(suppliers),
    level: 0.5 * world.normal(),
    competition: -0.25 + 0.25 * world.normal(),
    spread: 0.2 + 0.35 * world.uniform(),
    second: 0.25 + 0.6 * world.uniform(),
    round: world.uniform(),
    grid: world.pick([0.1, 0.25, 0.5, 0.5, 1]),
    floor: world.uniform() < 0.6 ? 0.2 + 0.4 * world.uniform() : 0,
    phase: world.uniform(),
    shifts: world.uniform() < 0.5,
    placements: Array.from({ length: 1 + world.below(4) }, () => ({
      level: 0.2 * world.normal(),
      competition: 0.12 * world.normal(),
    })),
  })
  let publishers = Array.from({ length: 300 }, (_each, n) => publisher(n))
  const driftOf = new Float64Array(300)
  const step = 0.15 / Math.sqrt(50_000)
  const mixture = new Mixture()
  const facts = newFacts()
  let fresh = 0

  const offer: Offer = {
    facts,
    wins: (price) => mixture.wins(price),
    margin: (price) => (facts.auction === 2 ? secondPrice(offer, price) : firstPrice(offer, price)),
    clears(price, u) {
      if (facts.auction !== 2) return price
      // The price at which this very bid would just have won.
      let [low, high] = [Math.min(price, facts.floor), price]
      if (u < mixture.wins(low)) return low
      for (let n = 0; n < 20; n++) {
        const middle = (low + high) / 2
        if (u < mixture.wins(middle)) high = middle
        else low = middle
      }
      return high
    },
    jumps: () => mixture.jumps(facts.floor, facts.inBa),
  }

  return {
    name: 'synthetic',
    every: usualEvery,
    offer(n, now) {
      if (options.freshEvery !== undefined && Math.floor(now / options.freshEvery) !== fresh) {
        fresh = Math.floor(now / options.freshEvery)
        publishers = publishers.map((_each, index) => ({
          ...publisher(index),
          name: `pub-${index}-${fresh}`,
        }))
      }
      // A walk of one publisher a bid, 300 steps of it as large as one of all.
      driftOf[n % 300]! += step * Math.sqrt(300) * drifts.normal()
      const rank = rankOf(traffic, draw.uniform())
      const p = publishers[rank]!
      const place = draw.below(p.placements.length)
      const placement = p.placements[place]!
      const country = Math.floor(draw.uniform() ** 2 * countries.length)
      const dsp = draw.below(dsps.length)
      const size = draw.below(sizes.length)
      const device = draw.below(devices.length)
      const hour = (now % day) / day
      const market =
        supplierLevel[p.supplier]! +
        p.level +
        placement.level +
        countryLevel[country]! +
        sizeLevel[size]! +
        deviceLevel[device]!
      const lnIn = 0.3 + 0.8 * market + dsps[dsp]!.level + 0.35 * draw.normal()
      const inBa = Math.max(0.02, Math.round(Math.exp(lnIn) * 1e4) / 1e4)
      const shifted = p.shifts && n >= (options.shiftAt ?? Number.POSITIVE_INFINITY)
      const level =
        p.competition +
        placement.competition +
        driftOf[rank]! +
        0.2 * Math.sin(2 * Math.PI * (hour + 0.2 * p.phase)) +
        (shifted ? (options.shift ?? 0.7) : 0)
      // Competition knows part of what makes a bid dear.
      const mean = 0.3 + 0.8 * market + 0.55 * (lnIn - 0.3 - 0.8 * market) + level
      mixture.clear()
      const drop = n >= (options.dropAt ?? Number.POSITIVE_INFINITY) ? 1 - (options.drop ?? 0.2) : 1
      const round = Math.min(0.5, supplierRound[p.supplier]! + 0.3 * p.round)
      const never = 0.12
      const always = 0.06
      const rest = (1 - never - always) * drop
      mixture.always = always * drop
      mixture.part(rest * (1 - round) * 0.65, mean, p.spread)
      mixture.part(rest * (1 - round) * 0.35, mean - 0.35, p.second)
      mixture.rounded(rest * round, mean - 0.1, p.spread, p.grid)
      facts.supplier = `ssp-${p.supplier}`
      facts.inBa = inBa
      const floor = Math.round(p.floor * Math.exp(0.3 + 0.8 * p.level) * 20) / 20
      facts.floor = floor < inBa ? floor : Math.round(0.5 * inBa * 1e4) / 1e4
      facts.publisher = p.name
      facts.domain = `${p.name}.example`
      facts.placement = `${p.name}/${place}`
      facts.country = countries[country]!
      facts.device = devices[device]!
      facts.format = 'banner'
      facts.size = sizes[size]!
      facts.dsp = `dsp-${dsp}`
      facts.auction = options.second !== undefined && draw.uniform() < options.second ? 2 : 1
      return offer
    },
  }
}
