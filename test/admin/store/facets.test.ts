/** Sums by facet: each bid is in the sums of all too, and bids without values are what is left. On both databases. */
import { readRows } from '../../../admin/reports/rows.ts'
import { createRollup } from '../../../admin/store/rollup.ts'
import { decided, observe } from '../../support/decision-record.ts'
import { onBoth, recordingLog, storeAt } from '../../support/store.ts'

const time = 1_790_000_000_000
const rules = { notices: {}, rates: { USD: 1 }, base: 'USD' }
const scope = { suppliers: ['acme'], all: true, from: time, to: time + 1, by: 'size' } as const
const facets = (n: number) => ({
  ...{ country: 'DEU', device: '', format: 'banner', size: `${n + 1}x50`, deal: '' },
})

onBoth(async (t, database) => {
  const { warnings, log } = recordingLog()
  const store = await storeAt(t, database, { now: () => time })
  const rollup = createRollup(store, log)
  t.teardown(() => rollup.close())
  const sizes = async () =>
    (await readRows(store, scope, rules)).map(({ key, decided }) => [key, decided])

  t.test(
    'bids that are decided while the sums are written are in neither, or in both',
    async (t) => {
      const count = 300
      for (let n = 0; n < count; n++)
        observe(rollup.bids, decided({ decidedAt: time, facets: facets(n) }), 2, 1)
      const written = rollup.flushFacets()
      await new Promise((resolve) => setImmediate(resolve))
      observe(
        rollup.bids,
        decided({ decidedAt: time, publisher: 'later', facets: facets(0) }),
        2,
        1,
      )
      await written
      t.equal((await sizes()).length, count, 'none without a size')
      await rollup.flushFacets()
      t.strictSame((await sizes())[0], ['100x50', 1])
      t.strictSame(new Map((await sizes()) as [string, number][]).get('1x50'), 2)
    },
  )

  t.test('the sums of all and those by facet are written at the same time', async (t) => {
    const decide = () => {
      for (let n = 0; n < 1000; n++)
        observe(
          rollup.bids,
          decided({ decidedAt: time, publisher: `p${n}`, facets: facets(n % 2) }),
          2,
          1,
        )
    }
    decide()
    await rollup.flush()
    decide()
    await Promise.all([rollup.flushFacets(), rollup.flush()])
    t.equal(new Map((await sizes()) as [string, number][]).get('2x50'), 1001)
  })

  t.test(
    'bids without values, and those whose sums by facet were lost, have the empty name',
    async (t) => {
      observe(rollup.bids, decided({ decidedAt: time }), 2, 1)
      observe(rollup.bids, decided({ decidedAt: time, facets: { ...facets(0), size: '' } }), 2, 1)
      observe(rollup.bids, decided({ decidedAt: time, arm: 'test', facets: facets(0) }), 2, 1)
      await rollup.flushFacets()
      t.strictSame((await sizes())[0], ['', 2])
      await store.db.deleteFrom('decided_facets').where('value', '=', '1x50').execute()
      t.strictSame((await sizes())[0], ['', 1004])
      t.same(warnings, [])
    },
  )
})
