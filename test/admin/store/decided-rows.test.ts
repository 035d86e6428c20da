/** Decided bids are summed by their names before they become rows. */
import t from 'tap'
import { createDecidedRows, type SeatRow } from '../../../admin/store/decided-rows.ts'
import { decided } from '../../support/decision-record.ts'

for (const [name, names] of Object.entries({
  'one character': [...'12345678'],
  'two characters': [...'12345678'].map((digit) => `p${digit}`),
  'no character, and one': ['', '1'],
}))
  t.test(`bids of publishers whose names have ${name} become one row for each name`, (t) => {
    const added: SeatRow[] = []
    const rows = createDecidedRows((row) => added.push(row))
    for (let n = 0; n < 100; n++)
      for (const publisher of names) rows.decided(decided({ publisher }), 2, 1.9)
    t.equal(added.length, 0, 'none is handed on before the others have come')
    rows.drain()
    t.strictSame(
      added.map(({ publisher, bids }) => [publisher, bids]).sort(),
      names.map((publisher) => [publisher, 100]),
    )
    t.end()
  })
