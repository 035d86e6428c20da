/** Decided bids are summed by their names before they become rows. */
import t from 'tap'
import { DecidedBids, type SeatRow } from '../../../admin/store/decided.ts'
import { drained } from '../../../opd/base/slices.ts'
import { decided } from '../../support/decision-record.ts'

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
      for (const publisher of names) rows.decided(decided({ publisher }), 2, 1.9)
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
  for (let n = 0; n < 1000; n++) rows.decided(decided({ publisher: `publisher-${n * 7919}` }), 2, 1)
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
  rows.decided(decided({ publisher: 'before' }), 2, 1)
  const steps = rows.drain()
  rows.decided(decided({ publisher: 'meanwhile' }), 2, 1)
  drained(steps)
  t.same(
    added.map(({ publisher }) => publisher),
    ['before'],
  )
})
