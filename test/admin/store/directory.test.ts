/** The directory equals the store, in whatever order its reads complete. */
import { createDirectory } from '../../../admin/directory.ts'
import type { Store } from '../../../admin/store/index.ts'
import { setHold } from '../../../admin/store/suppliers.ts'
import { onBoth, silent, storeAt } from '../../support/store.ts'

const hold = (store: Store, supplier: string) =>
  setHold(store, 1, true, { who: 'u', account: '*', supplier, action: 'hold', requestId: 'r' })

/** The store, with answers that come when `gate` says so. */
function slowed(store: Store) {
  const slow = { gate: async () => {} }
  const db = store.db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      await slow.gate()
      return result
    },
  })
  return { slow, store: { ...store, db } }
}

onBoth(async (t, database) => {
  t.test('a change that could not be read is read again', async (t) => {
    const real = await storeAt(t, database, { pollInterval: 10 })
    const { slow, store } = slowed(real)
    const directory = await createDirectory(store, silent)
    const taken = new Promise<void>((resolve) =>
      directory.onChange(({ holds }) => {
        if (holds.has('acme')) resolve()
      }),
    )
    let failures = 0
    slow.gate = async () => {
      if (failures++ < 3) throw new Error('lost between two questions')
    }
    await hold(real, 'acme')
    await taken
    t.ok(failures > 3)
  })

  // SQLite has one connection: its answers come in the order of the questions
  if (database.stop === undefined) return
  t.test('an older read does not replace a newer one', async (t) => {
    const real = await storeAt(t, database)
    const { slow, store } = slowed(real)
    const directory = await createDirectory(store, silent)
    const late = Promise.withResolvers<void>()
    const asked = Promise.withResolvers<void>()
    let answers = 0
    slow.gate = () => {
      if (++answers === 3) asked.resolve()
      return late.promise
    }
    const first = directory.refresh()
    await asked.promise
    slow.gate = async () => {}
    await hold(real, 'zeta')
    const second = directory.refresh()
    for (let turn = 0; turn < 5; turn++) await real.lost()
    late.resolve()
    await Promise.all([first, second])
    t.ok(directory.snapshot().holds.has('zeta'))
  })
})
