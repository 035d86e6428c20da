/**
 * Paying prices in the shape of the iPinYou rows: whole numbers of cents, 8 % of all at one single price, 18 % exactly
 * at the floor, the rest a mixture by publisher that is as spiky as a few dozen rows are.
 */
import type { BidFacts } from '../../../opd/learner.ts'
import { firstPrice, type Market, type Offer } from '../market.ts'
import { rankOf, source, zipf } from '../random.ts'

const floors = [0, 0, 0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.5, 0.7, 0.8, 1.3]
/** Campaigns bid flat prices, or by value. */
const flat = [2.27, 2.38, 2.49, 2.77, 2.94, 3]
const single = 0.7
const cent = (price: number) => Math.max(0.01, Math.round(price * 100) / 100)

interface Slot {
  publisher: number
  place: number
  floor: number
  prices: Float64Array
  /** Cumulative. */
  below: Float64Array
}

export interface ReplayOptions {
  /** Milliseconds between bids. */
  every?: number
}

export function replay(seed: number, options: ReplayOptions = {}): Market {
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const levels = Array.from({ length: 120 }, () => ({
    level: Math.log(0.6) + 0.5 * world.normal(),
    spread: 0.4 + 0.4 * world.uniform(),
    exchange: world.below(3),
    places: 1 + world.below(3),
    single: 0.16 * world.uniform(),
  }))
  const slots: Slot[] = levels.flatMap((of, publisher) =>
    Array.from({ length: of.places }, (_each, place) => {
      const floor = world.pick(floors)
      const level = of.level + 0.25 * world.normal()
      const rows = 20 + world.below(180)
      const masses = new Map<number, number>()
      for (let n = 0; n < rows; n++) {
        const u = world.uniform()
        let price = cent(Math.exp(level + of.spread * world.normal()))
        if (u < of.single) price = single
        else if (u < of.single + 0.18 && floor > 0) price = floor
        price = Math.max(price, floor)
        masses.set(price, (masses.get(price) ?? 0) + 1 / rows)
      }
      const sorted = [...masses].sort(([one], [other]) => one - other)
      let sum = 0
      return {
        publisher,
        place,
        floor,
        prices: Float64Array.from(sorted, ([price]) => price),
        below: Float64Array.from(sorted, ([, mass]) => {
          sum += mass
          return sum
        }),
      }
    }),
  )
  const order = slots.map((_each, at) => at).sort(() => world.uniform() - 0.5)
  const traffic = zipf(slots.length, 0.9)
  const campaigns = Array.from({ length: 9 }, (_each, n) => ({
    flat: n < 5 ? flat[n]! : null,
    level: 0.15 * world.normal(),
  }))
  const facts: BidFacts = { supplier: '', mode: 'revenue', inBa: 1, floor: 0 }
  let slot = slots[0]!
  const shown: number[] = []
  /** 4 % lose whatever they bid: frequency caps, brand lists. */
  const reach = 0.96

  const offer: Offer = {
    facts,
    wins(price) {
      const { prices, below } = slot
      let [low, high] = [0, prices.length]
      while (low < high) {
        const middle = (low + high) >> 1
        if (prices[middle]! <= price) low = middle + 1
        else high = middle
      }
      return low === 0 ? 0 : reach * below[low - 1]!
    },
    margin: (price) => firstPrice(offer, price),
    clears: (price) => price,
    jumps() {
      shown.length = 0
      for (const price of slot.prices) shown.push(price)
      return shown
    },
  }

  return {
    name: 'replay',
    every: options.every ?? 86_400_000 / 150_000,
    offer() {
      slot = slots[order[rankOf(traffic, draw.uniform())]!]!
      const of = levels[slot.publisher]!
      const at = draw.below(campaigns.length)
      const campaign = campaigns[at]!
      const value = Math.exp(of.level + 0.45 + campaign.level + 0.4 * draw.normal())
      let inBa = campaign.flat ?? cent(value)
      if (inBa <= slot.floor) inBa = cent(slot.floor * (1.1 + draw.uniform()))
      facts.supplier = `exchange-${of.exchange}`
      facts.inBa = inBa
      facts.floor = slot.floor
      facts.publisher = `pub-${slot.publisher}`
      facts.domain = `pub-${slot.publisher}.example`
      facts.placement = `slot-${slot.publisher}-${slot.place}`
      facts.country = 'CN'
      facts.device = draw.uniform() < 0.7 ? 'mobile' : 'desktop'
      facts.format = 'banner'
      facts.size = slot.place === 0 ? '300x250' : '728x90'
      facts.dsp = `dsp-${at}`
      facts.auction = 1
      return offer
    },
  }
}
