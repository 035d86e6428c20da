/** “What would happen at another price” says what a market with known win rates would do, from bids and notices alone. */
import t from 'tap'
import type { WinCurve } from '../../../admin/console/curve.ts'
import { mulberry32 } from '../../../opd/base/random.ts'
import { newFolder } from '../../support/process.ts'
import { echoSupplier, startNode } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

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
  const prices: Record<Publisher, number[]> = { cheap: [], dear: [] }
  for (let auction = 0; auction < 300; auction++) {
    const publisher: Publisher = auction % 2 === 0 ? 'cheap' : 'dear'
    const asked = Array.from({ length: 12 }, (_, index) => ({
      id: `b${auction}-${index}`,
      price: Number((0.4 + random() * 2).toFixed(2)),
      auction: `a${auction}`,
      request: { site: { domain: 'news.example', publisher: { id: publisher } } },
    }))
    prices[publisher].push(...asked.map(({ price }) => price))
    const won = (await node.bids(asked)).filter(({ price }) => random() < wins(publisher, price))
    for (const { id, out, svcOpd } of won)
      await node.notify({ bid_id: id, price: out, svc_opd: svcOpd })
  }
  const curve = async (query: string) => {
    const response = await node.api(`/api/svc/curve/?ssp=acme${query}`)
    return { status: response.status, body: (await response.json()) as WinCurve }
  }
  const truth = (publishers: Publisher[], factor: number) => {
    const all = publishers.flatMap((publisher) =>
      prices[publisher].map((price) => wins(publisher, price * factor)),
    )
    return all.reduce((sum, win) => sum + win, 0) / all.length
  }
  await until(async () => (await curve('')).body.bids === 300, { what: 'enough bids have settled' })
  for (const [query, names] of [
    ['', ['cheap', 'dear']],
    ['&publisher=cheap', ['cheap']],
    ['&publisher=dear', ['dear']],
  ] as const) {
    const { body } = await curve(query)
    t.equal(body.bids, 300)
    for (const factor of [1, 0.9, 0.8]) {
      const { win } = body.points.find((point) => point.factor === factor)!
      const expected = truth([...names], factor)
      t.ok(
        Math.abs(win / expected - 1) < 0.15,
        `${names.join(' and ')} at ${factor}: ${win.toFixed(3)}, in truth ${expected.toFixed(3)}`,
      )
    }
  }
  const none = await curve('&publisher=never-seen')
  t.match(none, { status: 404, body: { code: 'too_few_bids' } }, 'nothing is made up')
})
