/** The window of settled rows: what a refit is given. */
import t from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import { featureBytes } from '../../../opd/learner/features.ts'
import { outcomes, SettledRows, windowRows } from '../../../opd/learner/refit/settled-rows.ts'

const row = (n: number) => {
  const bytes = new Uint8Array(featureBytes)
  new DataView(bytes.buffer).setUint32(1, n)
  return bytes
}
const nameOf = (features: Uint8Array, offset: number) =>
  new DataView(features.buffer, features.byteOffset).getUint32(offset * featureBytes + 1)

t.test('a row has the outcome that was reported, before or after it settled', (t) => {
  const rows = new SettledRows()
  for (let n = 0; n < 1000; n++) {
    if (n % 4 === 1) rows.setOutcome('won', row(n), 0.5)
    rows.addRow(row(n))
    if (n % 4 === 2) rows.setOutcome('won', row(n))
    if (n % 4 === 3) rows.setOutcome('void', row(n))
  }
  const { features, outcome, least } = rows.copy()
  const numbers = Array.from({ length: 1000 }, (_each, n) => n)
  const expected = (n: number) => (n % 4 === 3 ? 'void' : n % 4 === 0 ? 'lost' : 'won')
  t.same(
    numbers.map((n) => [nameOf(features, n), outcome[n], least[n]]),
    numbers.map((n) => [n, outcomes[expected(n)], n % 4 === 1 ? 0.5 : 0]),
  )
  t.end()
})

t.test('the window holds the newest rows, oldest first', (t) => {
  const rows = new SettledRows()
  for (let n = 0; n < windowRows + 1000; n++) rows.addRow(row(n))
  const { features, outcome } = rows.copy()
  t.equal(outcome.length, windowRows)
  t.equal(nameOf(features, 0), 1000)
  t.equal(nameOf(features, windowRows - 1), windowRows + 999)
  const again = new SettledRows()
  drained(again.restoring(rows.copy()))
  again.addRow(row(1))
  t.equal(nameOf(again.copy().features, windowRows - 1), 1)
  t.end()
})
