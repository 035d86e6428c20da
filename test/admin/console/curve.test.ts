/** “What would happen at another price” says what a market with known win rates would do, from bids and notices alone. */
import t from 'tap'
import type { WinCurve } from '../../../admin/console/curve.ts'
import { mulberry32 } from '../../../opd/base/random.ts'
import { newFolder } from '../../support/process.ts'
import { echoSupplier, startNode } from '../../support/service-node.ts'
import { startLimit, until } from '../../support/until.ts'

/** The market: the share of bids of each publisher that win at a price, by the highest bid of the others. */
const publishers = { cheap: 1, dear: 1.8 }
type Publisher = keyof typeof publishers
/** The others bid twice in three auctions, around the value of the publisher. */
const wins = (publisher: Publisher, price: number) =>
  1 / (1 + (price / publishers[publisher]) ** -4)

t.test('the win curve over recent bids has the win rates of the market', async (t) => {
  const supplier = await echoSupplier()
  const folder = newFolder()
  const node = await startNode({
    folder,
    endpoint: supplier.url,
    suppliers: [
      'id: acme, opd: {enabled: true, explore: .3, holdout: .1, minFactor: .5, minWinRate: .7, minSpend: .7}',
    ],
    more: `store: {database: "sqlite:${folder}/b.db"}\nopd: {attributionWindow: 3s}`,
  })
  t.teardown(async () => {
    await node.bidweir.stop()
    await supplier.close()
  })
  const random = mulberry32(11)
  const sent: { publisher: Publisher; price: number }[] = []
  const auctions = 300
  for (let auction = 0; auction < auctions; auction++) {
    const publisher: Publisher = auction % 2 === 0 ? 'cheap' : 'dear'
    // Bids settle in the order of their decisions: once those of the last two auctions have, the model knows all.
    const domain = auction < auctions - 2 ? 'news.example' : 'last.example'
    const asked = Array.from({ length: 12 }, (_, index) => ({
      id: `b${auction}-${index}`,
      price: Number((0.4 + random() * 2).toFixed(2)),
      auction: `a${auction}`,
      request: { site: { domain, publisher: { id: publisher } } },
    }))
    sent.push(...asked.map(({ price }) => ({ publisher, price })))
    const won = (await node.bids(asked)).filter(({ price }) => random() < wins(publisher, price))
    for (const { id, out, svcOpd } of won)
      await node.notify({ bid_id: id, price: out, svc_opd: svcOpd })
  }
  const curve = async (query: string) => {
    const response = await node.api(`/api/svc/curve/?ssp=acme${query}`)
    return { status: response.status, body: (await response.json()) as WinCurve }
  }
  /** Of the bids that are averaged, the newest 300. */
  const truth = (publishers: readonly Publisher[], factor: number) => {
    const newest = sent.filter(({ publisher }) => publishers.includes(publisher)).slice(-300)
    const chances = newest.map(({ publisher, price }) => wins(publisher, price * factor))
    return chances.reduce((sum, chance) => sum + chance, 0) / chances.length
  }
  await until(async () => (await curve('&domain=last.example')).body.bids === 24, {
    what: 'all bids have settled',
  })
  /** The estimates that are wrong by a tenth and more. */
  const wrong = async () => {
    const found: string[] = []
    for (const [query, names] of [
      ['', ['cheap', 'dear']],
      ['&publisher=cheap', ['cheap']],
      ['&publisher=dear', ['dear']],
    ] as const) {
      const { body } = await curve(query)
      t.equal(body.bids, 300)
      for (const factor of [1, 0.9, 0.8]) {
        const { win } = body.points.find((point) => point.factor === factor)!
        const expected = truth(names, factor)
        if (Math.abs(win / expected - 1) > 0.1)
          found.push(
            `${names.join(' and ')} at ${factor}: ${win.toFixed(3)}, in truth ${expected.toFixed(3)}`,
          )
      }
    }
    return found
  }
  // The first fit is of the bids that have settled first, the next one, of all, is begun a minute later.
  let faults: string[] = []
  const areRight = async () => {
    faults = await wrong()
    return faults.length === 0
  }
  await until(areRight, { what: 'the win rates of the market', limit: startLimit }).catch(
    (error: Error) => t.fail(error.message, { faults }),
  )
  const none = await curve('&publisher=never-seen')
  t.match(none, { status: 404, body: { code: 'too_few_bids' } }, 'nothing is made up')
})
