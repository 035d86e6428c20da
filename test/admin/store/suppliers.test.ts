/** Rows of a supplier: a change writes what differs, however many there are. */
import { changeSupplier, readSuppliers, type SupplierRows } from '../../../admin/store/suppliers.ts'
import { onBoth, storeAt } from '../../support/store.ts'

const entry = { who: 'u', account: '*', supplier: 'acme', action: 'update', requestId: 'r' }

onBoth(async (t, database) => {
  t.test(
    'a supplier may have more data centers than a statement may have parameters',
    async (t) => {
      const store = await storeAt(t, database)
      const change = (datacentersOf: (before: SupplierRows) => SupplierRows['datacenters']) =>
        changeSupplier(store, 'acme', Date.now(), (before) => ({
          after: { seats: before.seats, datacenters: datacentersOf(before) },
          entry: { ...entry, before: null, after: null },
        }))
      for (let batch = 0; batch < 14; batch++)
        await change(({ datacenters }) => [
          ...datacenters,
          ...Array.from({ length: 1000 }, (_, n) => ({
            ...{ location: `l${batch}-${n}`, client_qps: n, is_active: true },
          })),
        ])
      await change(({ datacenters }) =>
        datacenters.map((center) =>
          center.location === 'l13-999' ? { ...center, is_active: false } : center,
        ),
      )
      const [rows] = await readSuppliers(store, ['acme'])
      t.equal(rows!.datacenters.length, 14_000)
      t.same(
        rows!.datacenters.filter(({ is_active }) => !is_active),
        [{ location: 'l13-999', client_qps: 999, is_active: false }],
      )
    },
  )
})
