/** Decided bids are summed by their names before they become rows. */
import t from 'tap'
import { DecidedBids, type SeatRow } from '../../../admin/store/decided.ts'
import { drained } from '../../../opd/base/slices.ts'
import { decided, observe } from '../../support/decision-record.ts'
import { source } from '../../support/random.ts'

const bidsOf = (added: SeatRow[]) =>
  new DecidedBids(
    (row) => void added.push(row),
    () => {},
  )

for (const [name, names] of Object.entries({
  'one character': [...'12345678'],
  'two characters': [...'12345678'].map((digit) => `p${digit}`),
  'no character, and one': ['', '1'],
}))
  t.test(`bids of publishers whose names have ${name} become one row for each name`, (t) => {
    const added: SeatRow[] = []
    const rows = bidsOf(added)
    for (let n = 0; n < 100; n++)
      for (const publisher of names) observe(rows, decided({ publisher }), 2, 1.9)
    t.equal(added.length, 0, 'none is handed on before the others have come')
    drained(rows.drain())
    t.strictSame(
      added.map(({ publisher, bids }) => [publisher, bids]).sort(),
      names.map((publisher) => [publisher, 100]),
    )
    t.end()
  })

t.test('many rows are handed on in several steps', (t) => {
  const added: SeatRow[] = []
  const rows = bidsOf(added)
  for (let n = 0; n < 1000; n++)
    observe(rows, decided({ publisher: `publisher-${n * 7919}` }), 2, 1)
  const before = added.length
  const steps = rows.drain()
  steps.next()
  t.ok(added.length - before < 500, `the first step hands on ${added.length - before}`)
  drained(steps)
  t.equal(
    added.reduce((sum, { bids }) => sum + bids, 0),
    1000,
  )
  t.end()
})

t.test('a drain has the bids before it, and none of those that come meanwhile', async (t) => {
  const added: SeatRow[] = []
  const rows = bidsOf(added)
  observe(rows, decided({ publisher: 'before' }), 2, 1)
  const steps = rows.drain()
  observe(rows, decided({ publisher: 'meanwhile' }), 2, 1)
  drained(steps)
  t.same(
    added.map(({ publisher }) => publisher),
    ['before'],
  )
})

t.test('a drain of some names takes whole suppliers, those first that have waited longest', (t) => {
  const added: SeatRow[] = []
  const rows = bidsOf(added)
  const decideAll = () => {
    for (const supplier of ['s1', 's2', 's3'])
      for (const publisher of ['p1', 'p2']) observe(rows, decided({ supplier, publisher }), 2, 1)
  }
  const handedOn = (most: number) => {
    added.length = 0
    drained(rows.drain(most))
    return added.map(({ supplier, bids }) => `${supplier} ${bids}`)
  }
  decideAll()
  t.same(handedOn(0), [])
  t.same(handedOn(1), ['s1 1', 's1 1'])
  decideAll()
  t.same(handedOn(4), ['s2 2', 's2 2', 's3 2', 's3 2'], 'rows that wait take up later bids')
  t.same(handedOn(Number.POSITIVE_INFINITY), ['s1 1', 's1 1'])
  t.end()
})

t.test(
  'each bid is counted once if many names have one place, or there are too many names',
  (t) => {
    const added: SeatRow[] = []
    const rows = bidsOf(added)
    const alike = Array.from({ length: 300 }, (_, n) => `${String(n).padStart(3, '0')}-x-y-z`)
    const many = Array.from({ length: 40_000 }, (_, n) => `publisher-${n}`)
    for (const publisher of [...alike, ...many, ...alike])
      observe(rows, decided({ publisher, supplier: `s${publisher.charCodeAt(0)}` }), 2, 1)
    drained(rows.drain())
    const bids = new Map<string, number>()
    for (const row of added) bids.set(row.publisher, (bids.get(row.publisher) ?? 0) + row.bids)
    t.equal(bids.size, alike.length + many.length)
    t.ok(alike.every((name) => bids.get(name) === 2))
    t.ok(many.every((name) => bids.get(name) === 1))
    t.end()
  },
)

t.test('thousands of names that differ in a digit become one row each', (t) => {
  const added: SeatRow[] = []
  const rows = bidsOf(added)
  for (let round = 0; round < 2; round++)
    for (let n = 0; n < 4000; n++)
      observe(rows, decided({ supplier: `s-${n % 1000}`, publisher: `p-${n}` }))
  drained(rows.drain())
  t.equal(added.length, 4000)
  t.ok(added.every(({ bids }) => bids === 2))
  t.end()
})

t.test('every bid is in one row, whatever is drained meanwhile', (t) => {
  const random = source(7)
  const pick = <T>(values: readonly T[]) => values[Math.floor(random() * values.length)]!
  const suppliers = Array.from({ length: 300 }, (_, n) => `s${n}`)
  const facets = ['DE', 'FR'].map((country) => ({
    ...{ country, device: '', format: '', size: '', deal: '' },
  }))
  const wanted = new Map<string, number[]>()
  const found = { rows: new Map<string, number[]>(), facets: new Map<string, number[]>() }
  const addTo = (sums: Map<string, number[]>, key: string, more: readonly number[]) =>
    sums.set(
      key,
      (sums.get(key) ?? [0, 0, 0]).map((sum, index) => sum + more[index]!),
    )
  const keyOf = (row: Pick<SeatRow, 'hour' | 'supplier' | 'mode' | 'arm' | 'via'>) =>
    [row.hour, row.supplier, row.mode, row.arm, row.via].join(' ')
  const bids = new DecidedBids(
    (row) =>
      void addTo(found.rows, `${keyOf(row)} ${row.publisher} ${row.domain} ${row.seat}`, [
        ...[row.bids, row.in_sum, row.out_sum],
      ]),
    (row) =>
      void addTo(found.facets, `${keyOf(row)} ${row.facets.country}`, [
        ...[row.bids, row.in_sum, row.out_sum],
      ]),
  )
  const wantedFacets = new Map<string, number[]>()
  for (let n = 0; n < 60_000; n++) {
    const row = {
      ...{ supplier: pick(suppliers), mode: pick(['revenue', 'margin']) as 'revenue' },
      ...{
        arm: pick(['treated', 'holdout']) as 'treated',
        via: pick(['proxy', 'agent']) as 'proxy',
      },
      ...{ publisher: pick(['p', 'q', 'r']), domain: 'd', seat: pick(['', 's']) },
    }
    const hour = 3_600_000 * Math.floor(n / 25_000)
    const [inBa, outBa] = [1 + (n % 8), 1 + (n % 3)]
    const known = pick([...facets, undefined])
    observe(bids, decided({ ...row, decidedAt: hour + 5, facets: known }), inBa, outBa)
    const key = keyOf({ ...row, hour })
    addTo(wanted, `${key} ${row.publisher} ${row.domain} ${row.seat}`, [1, inBa, outBa])
    if (known !== undefined) addTo(wantedFacets, `${key} ${known.country}`, [1, inBa, outBa])
    if (n % 4000 === 3999) drained(bids.drain(pick([0, 1, 500, 2000])))
    if (n % 17_000 === 16_999) drained(bids.drainFacets())
    if (n % 29_000 === 28_999) drained(bids.drain())
  }
  drained(bids.drain())
  drained(bids.drainFacets())
  t.strictSame(found.rows, wanted)
  t.strictSame(found.facets, wantedFacets)
  t.end()
})
