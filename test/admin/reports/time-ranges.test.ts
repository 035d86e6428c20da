/** Which parts of a time range a report reads from the sums of hours, and which from the rows. */
import t from 'tap'
import { split } from '../../../admin/reports/scope.ts'

const hour = 3_600_000

t.test('each part of a range is read once, from the sums or from the rows', async (t) => {
  const h = (n: number) => n * hour
  const none = { ledger: [{ from: h(3), to: h(5) }], hours: null }
  t.same(split({ from: h(3), to: h(5) }, { until: 0, sealed: 0, stale: [] }), none)
  t.same(split({ from: h(3), to: h(5) }, { until: h(5), sealed: 0, stale: [] }), {
    ledger: [],
    hours: { from: h(3), to: h(5), stale: [] },
  })
  t.same(split({ from: h(3) + 1, to: h(7) + 1 }, { until: h(6), sealed: h(2), stale: [] }), {
    ledger: [
      { from: h(3) + 1, to: h(4) },
      { from: h(6), to: h(7) + 1 },
    ],
    hours: { from: h(4), to: h(6), stale: [] },
  })
  t.same(
    split({ from: h(3) + 1, to: h(7) + 1 }, { until: h(9), sealed: h(9), stale: [] }),
    { ledger: [], hours: { from: h(3), to: h(8), stale: [] } },
    'where rows are gone, hours count whole',
  )
  t.same(
    split({ from: h(3), to: h(8) }, { until: h(7), sealed: h(1), stale: [h(2), h(4), h(7)] }),
    {
      ledger: [
        { from: h(4), to: h(5) },
        { from: h(7), to: h(8) },
      ],
      hours: { from: h(3), to: h(7), stale: [h(4)] },
    },
    'an hour whose rows have changed is read from its rows',
  )
  t.same(split({ from: h(3) + 1, to: h(3) + 2 }, { until: h(9), sealed: h(2), stale: [] }), {
    ledger: [{ from: h(3) + 1, to: h(3) + 2 }],
    hours: null,
  })
})
