/**
 * Paying prices in the shape of the iPinYou rows: whole cents, 8 % of all at one single price, 18 % exactly at the
 * floor of the bid, a third at the flat prices of a few dozen campaigns, the rest a mixture by slot.
 */
import { firstPriceOffer, type Market, newFacts, usualEvery } from '../market.ts'
import { countBelow, rankOf, type Source, source, zipf } from '../random.ts'

const floors = [0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.8, 1.3]
const single = 0.7
const cent = (price: number) => Math.max(0.01, Math.round(price * 100) / 100)

interface Slot {
  name: string
  publisher: number
  exchange: number
  level: number
  size: string
  floors: number[]
  atFloor: number
  prices: Float64Array
  /** Cumulative, without what lies at the floor. */
  below: Float64Array
}

/** Rows of one slot, counted: what a replay knows of its curve. */
function slotOf(
  world: Source,
  publisher: { place: number; level: number; exchange: number },
  place: number,
  rivals: readonly number[],
): Slot {
  const level = publisher.level + 0.3 * world.normal()
  const spread = 0.15 + 0.35 * world.uniform()
  const near = rivals.filter((price) => Math.abs(Math.log(price) - level) < 0.6)
  const mine = Array.from({ length: 3 }, () => (near.length > 0 ? world.pick(near) : single))
  const atSingle = 0.22 * world.uniform()
  const flat = 0.2 + 0.4 * world.uniform()
  const rows = 30 + world.below(200)
  const masses = new Map<number, number>()
  for (let n = 0; n < rows; n++) {
    const u = world.uniform()
    let price = cent(Math.exp(level + spread * world.normal()))
    if (u < atSingle) price = single
    else if (u < atSingle + flat) price = mine[Math.floor(world.uniform() ** 2 * mine.length)]!
    masses.set(price, (masses.get(price) ?? 0) + 1 / rows)
  }
  const sorted = [...masses].sort(([one], [other]) => one - other)
  let sum = 0
  const usual = floors.filter((price) => price < 0.9 * Math.exp(level))
  return {
    name: `slot-${publisher.place}-${place}`,
    publisher: publisher.place,
    exchange: publisher.exchange,
    level,
    size: world.pick(['300x250', '728x90', '160x600', '336x280', '1000x90']),
    floors: Array.from({ length: 1 + world.below(3) }, () => world.pick(usual)),
    atFloor: 0.5 * world.uniform(),
    prices: Float64Array.from(sorted, ([price]) => price),
    below: Float64Array.from(sorted, ([, mass]) => {
      sum += mass
      return sum
    }),
  }
}

export function replay(seed: number): Market {
  const root = source(seed)
  const world = root.fork(1)
  const draw = root.fork(2)
  const rivals = Array.from({ length: 40 }, () => cent(Math.exp(-0.4 + 0.6 * world.normal())))
  const slots: Slot[] = []
  for (let index = 0; slots.length < 500; index++) {
    const publisher = { place: index, level: -0.4 + 0.5 * world.normal(), exchange: world.below(3) }
    for (let place = 1 + world.below(4); place > 0; place--)
      slots.push(slotOf(world, publisher, place, rivals))
  }
  for (let n = slots.length - 1; n > 0; n--) {
    const other = world.below(n + 1)
    const held = slots[n]!
    slots[n] = slots[other]!
    slots[other] = held
  }
  const traffic = zipf(slots.length, 0.9)
  const campaigns = Array.from({ length: 9 }, () => ({
    level: 0.15 * world.normal(),
    share: world.uniform() < 0.5 ? 0.1 : 0.3,
  }))
  const facts = newFacts()
  let slot = slots[0]!
  let atFloor = 0
  /** 4 % lose whatever they bid: frequency caps, brand lists. */
  const reach = 0.96
  const wins = (price: number) => {
    if (price < facts.floor) return 0
    const most = countBelow(slot.prices, price, true)
    return reach * (atFloor + (1 - atFloor) * (slot.below[most - 1] ?? 0))
  }
  const offer = firstPriceOffer(facts, wins, { jumps: () => slot.prices })

  return {
    name: 'replay',
    every: usualEvery,
    offer() {
      slot = slots[rankOf(traffic, draw.uniform())]!
      const drawn = draw.below(campaigns.length)
      const campaign = campaigns[drawn]!
      const value = Math.exp(slot.level + 0.25 + campaign.level + campaign.share * draw.normal())
      facts.floor = slot.floors[draw.below(slot.floors.length)]!
      atFloor = facts.floor > 0 ? slot.atFloor : 0
      const inBa = cent(value)
      facts.inBa = inBa > facts.floor ? inBa : cent(facts.floor * (1.1 + draw.uniform()))
      facts.supplier = `exchange-${slot.exchange}`
      facts.publisher = `pub-${slot.publisher}`
      facts.domain = `pub-${slot.publisher}.example`
      facts.placement = slot.name
      facts.country = 'CN'
      facts.device = draw.uniform() < 0.7 ? 'mobile' : 'desktop'
      facts.format = 'banner'
      facts.size = slot.size
      facts.dsp = `dsp-${drawn}`
      facts.auction = 1
      return offer
    },
  }
}
