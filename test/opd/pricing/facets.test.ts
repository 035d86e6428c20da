/** The values by which reports group bids: their spelling, and how many a supplier can make. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import {
  Combinations,
  FacetTable,
  maxCountries,
  maxDeals,
  maxSizes,
} from '../../../opd/pricing/facets.ts'
import type { BidFeatures } from '../../../opd/shared/reasons.ts'

const hour = 3_600_000
const timestamp = 500_000 * hour

t.test('values as they are sent, as they are reported', async (t) => {
  const table = new FacetTable(new Combinations())
  const nothing = { country: '', device: '', format: '', size: '', deal: '' }
  const long = 'd'.repeat(80)
  const rows: [BidFeatures, Partial<typeof nothing>][] = [
    [{ country: 'deu' }, { country: 'DEU' }],
    [{ country: 'DE' }, { country: 'DE' }],
    [{ country: 'Deutschland' }, { country: 'other' }],
    [{ country: '<b>' }, { country: 'other' }],
    [{ device: '4' }, { device: 'phone' }],
    [{ device: '8' }, { device: 'ooh' }],
    [{ device: '9' }, { device: 'other' }],
    [{ device: '-1.5' }, { device: 'other' }],
    [{ format: 'native' }, { format: 'native' }],
    [{ size: '300x250' }, { size: '300x250' }],
    [{ size: '0x250' }, { size: 'other' }],
    [{ size: '1.5x250' }, { size: 'other' }],
    [{ size: '123456x250' }, { size: 'other' }],
    [{ deal: 'deal-7' }, { deal: 'deal-7' }],
    [{ deal: long }, { deal: table.facetsOf({ deal: long }, timestamp)!.deal }],
  ]
  for (const [features, wanted] of rows)
    t.strictSame(
      table.facetsOf(features, timestamp),
      { ...nothing, ...wanted },
      JSON.stringify(features),
    )
  t.equal(table.facetsOf({ deal: long }, timestamp)!.deal.length, 64)
  t.equal(table.facetsOf({ publisher: 'p' }, timestamp), undefined, 'nothing is known')
})

t.test('bids with the same values share one object', async (t) => {
  const table = new FacetTable(new Combinations())
  const one = table.facetsOf({ country: 'DEU', size: '300x250', publisher: 'a' }, timestamp)
  t.equal(table.facetsOf({ country: 'DEU', size: '300x250', publisher: 'b' }, timestamp), one)
  t.not(table.facetsOf({ country: 'DEU', size: '300x600' }, timestamp), one)
})

t.test('values beyond the limits are one, until the next hour', async (t) => {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'
  const country = (n: number) =>
    letters[Math.floor(n / 676)]! + letters[Math.floor(n / 26) % 26]! + letters[n % 26]!
  for (const [name, limit, value] of [
    ['country', maxCountries, country],
    ['size', maxSizes, (n: number) => `${n + 1}x50`],
    ['deal', maxDeals, (n: number) => `deal-${n}`],
  ] as const) {
    const table = new FacetTable(new Combinations())
    const seen = (time: number, count: number) =>
      new Set(
        Array.from({ length: count }, (_, n) => table.facetsOf({ [name]: value(n) }, time)![name]),
      )
    const values = seen(timestamp, 10_000)
    t.equal(values.size, limit + 1, name)
    t.ok(values.has('other'))
    t.notOk(seen(timestamp + hour, limit).has('other'), 'they are counted anew')
  }
})

t.test('suppliers share the objects, and each has limits of its own', async (t) => {
  const all = new Combinations()
  const [one, other] = [new FacetTable(all), new FacetTable(all)]
  const sizes = (table: FacetTable, count: number) =>
    Array.from({ length: count }, (_, n) => table.facetsOf({ size: `${n + 1}x50` }, timestamp)!)
  const first = sizes(one, 2 * maxSizes)
  t.equal(first.at(-1)!.size, 'other')
  const second = sizes(other, maxSizes)
  t.notOk(second.some(({ size }) => size === 'other'))
  t.ok(second.every((facets, n) => facets === first[n]))
  t.equal(other.facetsOf({ size: '1000x50' }, timestamp)!.size, 'other')
})

t.test('values beyond those that are kept for all suppliers are right as well', async (t) => {
  const all = new Combinations()
  for (let supplier = 0; supplier < 400; supplier++) {
    const table = new FacetTable(all)
    const deals = new Set<string>()
    for (let n = 0; n < maxDeals; n++)
      deals.add(table.facetsOf({ deal: `${supplier}-${n}` }, timestamp)!.deal)
    if (deals.size !== maxDeals || !deals.has(`${supplier}-7`)) t.fail(`supplier ${supplier}`)
    t.equal(table.facetsOf({ deal: 'one more' }, timestamp)!.deal, 'other')
  }
})

t.test('long texts are not kept', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const table = new FacetTable(new Combinations())
  const used = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = used()
  const megabyte = 2 ** 20
  for (let n = 0; n < maxDeals / 2; n++)
    t.match(table.facetsOf({ deal: `${n}`.padStart(megabyte, 'd') }, timestamp)!.deal, /^.{64}$/)
  const grown = used() - before
  t.ok(grown < 10 * megabyte, `${grown} bytes`)
})
