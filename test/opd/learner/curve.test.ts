/** The win curve by itself: where its weights lie, what one observation moves, and the price that is chosen from it. */
import { crc32 } from 'node:zlib'
import t from 'tap'
import { Curve } from '../../../opd/learner/curve/curve.ts'
import {
  blockFrom,
  blockMask,
  blocks,
  blockWidth,
  sumOf,
} from '../../../opd/learner/curve/layout.ts'
import { keyCount } from '../../../opd/learner/curve/priors.ts'
import { PriceSearch } from '../../../opd/learner/decide/price-search.ts'
import { SnapshotError } from '../../../opd/learner/snapshot.ts'
import { createLearner } from '../../../opd/learner.ts'
import { source } from '../../support/random.ts'

const keysFrom = (seed: number) =>
  Uint32Array.from({ length: keyCount }, (_each, n) => Math.imul(seed + n + 1, 0x9e3779b1) >>> 0)

/** A curve that knows something: bids of five publishers, won more often the dearer they went out. */
function trained(seed: number, bids: number): Curve {
  const curve = new Curve()
  const random = source(seed)
  for (let n = 0; n < bids; n++) {
    const inBa = 0.5 + 2 * random()
    const price = inBa * (0.2 + 0.8 * random())
    curve.loadBid(keysFrom(n % 5), Math.log(inBa), false)
    const won = random() < 0.1 + 0.7 * (price / inBa) ** 2 + (price >= 1 ? 0.1 : 0)
    curve.train(price, 'exposure')
    if (won) curve.train(price, 'win')
  }
  return curve
}

t.test('weights of a key lie side by side, each where its sum looks for it', (t) => {
  for (let key = 0; key < keyCount; key++) {
    t.ok(-blockMask[key]! >= blockWidth[key]!)
    t.equal(
      blockFrom[key],
      blocks.slice(0, key).reduce((sum, { sums }) => sum + sums.length, 0),
    )
    const from = blockFrom[key]!
    t.same([...sumOf.subarray(from, from + blockWidth[key]!)], blocks[key]!.sums)
  }
  t.end()
})

t.test(
  'prices between knots are looked at where the best may be: it is as good as the best of all',
  (t) => {
    const curve = trained(5, 4000)
    const chooser = new PriceSearch()
    const random = source(9)
    let [shares, most] = [0, 0]
    const runs = 1500
    for (let n = 0; n < runs; n++) {
      const inBa = 0.05 * 800 ** random()
      const [least, theta] = [0.01 + 0.89 * random(), 1 + 3 * random()]
      const doubt = n % 2 === 0 ? 0 : 0.3 * random()
      const best = (saving: number) => {
        curve.loadBid(keysFrom(n % 5), Math.log(inBa), false)
        const reward = theta * inBa
        const bid = { inBa, lowest: least * inBa, reward, other: 1.5 * reward, saving, doubt }
        const price = chooser.best(curve, bid)
        return (theta * inBa - price) * chooser.winOut
      }
      // Where the second price is paid all of the grid is looked at.
      const share = best(0) / best(1e-12)
      shares += share
      if (share > 0.9999) most++
    }
    t.ok(shares / runs > 0.998, `${shares / runs} on the mean`)
    t.ok(most / runs > 0.97, `the very same of ${most / runs}`)
    t.end()
  },
)

t.test('what is doubted of a price is taken off its wins before the best is chosen', (t) => {
  const curve = trained(5, 4000)
  const chooser = new PriceSearch()
  curve.loadBid(keysFrom(1), 0, false)
  const bid = { inBa: 1, lowest: 0.1, reward: 1.2, saving: 0 }
  const found = [0, 0.1, 0.5].map((doubt) => {
    const price = chooser.best(curve, { ...bid, doubt })
    const known = curve.wins(price) - doubt * curve.wins(1) * (1 - price)
    t.ok(Math.abs(chooser.winOut - known) < 1e-6, `${chooser.winOut} for ${known}`)
    const others = Array.from({ length: 80 }, (_each, n) => 0.2 + n / 100)
    const worth = (price: number) =>
      (1.2 - price) * (curve.wins(price) - doubt * curve.wins(1) * (1 - price))
    t.ok(worth(price) > 0.995 * Math.max(...others.map(worth)))
    return price
  })
  t.ok(found[0]! < found[1]! && found[1]! < found[2]!, `${found}`)
  t.end()
})

t.test('a snapshot of an older layout is refused', (t) => {
  const snapshot = createLearner({}).snapshot()
  t.doesNotThrow(() => createLearner({}, snapshot))
  const before = Buffer.from(snapshot)
  before[3] = 0x33
  before.writeUInt32BE(crc32(before.subarray(0, -4)), before.length - 4)
  t.throws(() => createLearner({}, before), SnapshotError)
  t.end()
})
