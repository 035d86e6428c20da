/**
 * A market whose every property is drawn from its seed: sizes, what own prices and competition have in common, mixtures of
 * competitors, rounding, floors, rivals who pause, new publishers, drift, a jump, second prices, notice delays and the policy.
 */
import type { Policy } from '../../../opd/learner.ts'
import {
  day,
  firstPrice,
  type Market,
  Mixture,
  newFacts,
  type Offer,
  secondPrice,
} from '../market.ts'
import { rankOf, type Source, source, zipf } from '../random.ts'

export interface DrawnMarket {
  market: Market
  policy: Policy
  /** Milliseconds from bid to notice. */
  delay: (now: number, draw: Source) => number
  /** Share of notices that never come. */
  lost: number
  /** Milliseconds. */
  window: number
}

/** How wins become rare: by a factor of every probability to win, and by an addition to the ln of every competing price. */
interface Rarity {
  thin: number
  shift: number
}

/** Win rates at own prices of markets where wins are rare, and the offers over which they are estimated. */
const [rarest, leastRare, sampled] = [0.001, 0.01, 400]
const steps = 12
const mostShift = 2.5

/** Half of these markets have a low plateau, the others strong competition. */
export function rarityOf(seed: number, bids: number): Rarity {
  const world = source(seed).fork(9)
  const rate = rarest * (leastRare / rarest) ** world.uniform()
  const rateWith = (rarity: Rarity) => {
    const { market } = drawnMarket(seed, bids, rarity)
    let sum = 0
    for (let n = 0; n < sampled; n++) {
      const offer = market.offer(n, n * market.every)
      sum += offer.wins(offer.facts.inBa)
    }
    return sum / sampled
  }
  let [low, high] = [0, world.uniform() < 0.5 ? 0 : mostShift]
  for (let n = 0; n < steps && high > 0; n++) {
    const shift = (low + high) / 2
    if (rateWith({ thin: 1, shift }) > rate) low = shift
    else high = shift
  }
  return { thin: Math.min(1, rate / rateWith({ thin: 1, shift: low })), shift: low }
}

const formats = ['banner', 'video', 'native'] as const
const devices = ['phone', 'tablet', 'desktop'] as const

/** `bids`: the length of the run, for what happens in its middle. */
export function drawnMarket(
  seed: number,
  bids: number,
  { thin, shift }: Rarity = { thin: 1, shift: 0 },
): DrawnMarket {
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const drifts = root.fork(3)
  const range = (low: number, high: number) => low + (high - low) * world.uniform()
  const logRange = (low: number, high: number) => low * (high / low) ** world.uniform()
  const chance = (share: number) => world.uniform() < share

  const suppliers = 1 + world.below(10)
  const publisherCount = Math.round(logRange(10, 2000))
  const traffic = zipf(publisherCount, range(0.6, 1.3))
  const every = 1000 / logRange(2, 40)
  const spreads = { supplier: range(0, 0.5), publisher: range(0.1, 0.8), placement: range(0, 0.5) }
  const ownSpread = range(0.15, 0.7)
  const [shared, known, gap] = [range(0.1, 1), range(0.2, 1), range(-0.9, 0.9)]
  const [never, always] = [range(0, 0.6), chance(0.5) ? 0.1 * world.uniform() : 0]
  const parts = 1 + world.below(3)
  const rounded = chance(0.5) ? range(0.1, 0.9) : 0
  const grid = world.pick([0.05, 0.1, 0.25, 0.5, 1])
  const spread = logRange(0.12, 0.9)
  const floors = world.uniform()
  const drift = chance(0.5) ? range(0, 0.3) : 0
  const daily = chance(0.5) ? range(0, 0.4) : 0
  const jump = chance(0.25) ? range(-0.7, 0.7) : 0
  const jumpAt = bids * range(0.3, 0.7)
  const pauses = chance(0.25) ? logRange(600_000, 6 * 3_600_000) : 0
  const freshShare = chance(0.2) ? range(0.1, 0.5) : 0
  const isSecond = chance(0.1)
  const median = chance(0.15) ? logRange(300_000, 3_600_000) : logRange(1000, 300_000)
  const delaySpread = range(0.3, 1.2)

  const levels = (count: number, total: number) =>
    Array.from({ length: count }, () => total * world.normal())
  const supplierLevels = levels(suppliers, spreads.supplier)
  const countryLevels = levels(3 + world.below(30), range(0, 0.6))
  const dspLevels = levels(2 + world.below(25), range(0, 0.5))
  const countries = zipf(countryLevels.length, 0.9)
  const dsps = zipf(dspLevels.length, 0.8)
  const publishers = Array.from({ length: publisherCount }, () => ({
    supplier: world.below(suppliers),
    level: spreads.publisher * world.normal(),
    competition: 0.3 * world.normal(),
    spread: spread * Math.exp(0.3 * world.normal()),
    floor: world.uniform() < floors ? Math.exp(range(-1.6, -0.4)) : 0,
    phase: world.uniform(),
    isFresh: world.uniform() < freshShare,
    places: Array.from({ length: 1 + world.below(8) }, () => ({
      level: spreads.placement * world.normal(),
      competition: 0.2 * world.normal(),
      format: world.below(3),
      size: world.below(6),
    })),
  }))
  const drifted = new Float64Array(publisherCount)
  const mixture = new Mixture()
  const facts = newFacts()
  const wins = (price: number) => (price < facts.floor ? 0 : mixture.wins(price))
  const offer: Offer = {
    facts,
    wins,
    margin: (price) => (isSecond ? secondPrice(offer, price) : firstPrice(offer, price)),
    clears(price, u) {
      if (!isSecond) return price
      let [low, high] = [Math.min(price, facts.floor), price]
      if (u < wins(low)) return low
      for (let n = 0; n < 20; n++) {
        const middle = (low + high) / 2
        if (u < wins(middle)) high = middle
        else low = middle
      }
      return high
    },
    jumps: () => mixture.jumps(facts.floor, facts.inBa),
  }

  const market: Market = {
    name: 'drawn',
    every,
    offer(n, now) {
      drifted[n % publisherCount]! += drift * Math.sqrt(publisherCount / 50_000) * drifts.normal()
      const rank = rankOf(traffic, draw.uniform())
      const publisher = publishers[rank]!
      const place = draw.below(publisher.places.length)
      const placement = publisher.places[place]!
      const [country, dsp] = [rankOf(countries, draw.uniform()), rankOf(dsps, draw.uniform())]
      const device = draw.below(devices.length)
      const value =
        supplierLevels[publisher.supplier]! +
        publisher.level +
        placement.level +
        countryLevels[country]! +
        [0, -0.15, 0.25][device]! +
        [0, 0.2, 0.7][placement.format]!
      const deviation = ownSpread * draw.normal()
      const lnIn = 0.3 + value + dspLevels[dsp]! + deviation
      const hour = (now % day) / day
      const isPaused = pauses > 0 && Math.floor(now / pauses + 7 * publisher.phase) % 3 === 0
      const mean =
        0.3 +
        known * value +
        shared * deviation +
        gap +
        shift +
        publisher.competition +
        placement.competition +
        drifted[rank]! +
        daily * Math.sin(2 * Math.PI * (hour + 0.2 * publisher.phase)) +
        (n > jumpAt ? jump : 0)
      mixture.clear()
      mixture.always = always * thin
      const rest = (1 - never) * (1 - always) * thin
      for (let part = 0; part < parts; part++) {
        const share = (rest * (1 - rounded)) / parts
        if (isPaused && part > 0) mixture.always += share
        else mixture.part(share, mean - 0.5 * part, publisher.spread * (1 + part))
      }
      mixture.rounded(rest * rounded, mean - 0.1, publisher.spread, grid)
      const name = publisher.isFresh ? `p${rank}-${Math.floor(now / 3_600_000)}` : `p${rank}`
      facts.supplier = `s${publisher.supplier}`
      facts.inBa = Math.max(0.02, Math.round(Math.exp(lnIn) * 1e4) / 1e4)
      facts.floor = Math.min(facts.inBa, publisher.floor * Math.exp(0.3 + value))
      facts.publisher = name
      facts.domain = `${name}.example`
      facts.placement = `${name}/${place}`
      facts.country = `C${country}`
      facts.device = devices[device]!
      facts.format = formats[placement.format]!
      facts.size = `${placement.size}`
      facts.dsp = `d${dsp}`
      facts.auction = isSecond ? 2 : 1
      return offer
    },
  }
  const floorsOf = [0.9, 0.95, 0.97, 0.97, 0.98]
  const policy = {
    minWinRate: world.pick(floorsOf),
    minSpend: world.pick(floorsOf),
    holdout: world.pick([0.01, 0.02, 0.03, 0.05]),
    explore: 0.005,
    minFactor: 0.1,
  }
  return {
    market,
    policy,
    delay: (_now, random) => median * Math.exp(delaySpread * random.normal()),
    lost: chance(0.8) ? range(0.005, 0.06) : range(0.1, 0.3),
    window: Math.max(120_000, Math.min(10_800_000, 15 * median)),
  }
}
