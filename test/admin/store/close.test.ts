/** A store that is closed completes the work of a poll: what it has called still uses the database. */
import t from 'tap'
import { openStore } from '../../../admin/store/index.ts'
import { silent } from '../../support/store.ts'

t.test('a store that is closed during a poll', async (t) => {
  const errors: string[] = []
  const log = { ...silent, error: (_fields: object, text: string) => void errors.push(text) }
  const store = await openStore('sqlite::memory:', { now: Date.now, log, pollInterval: 1 })
  const reading = Promise.withResolvers<void>()
  const mayRead = Promise.withResolvers<void>()
  let read = 0
  store.onChange(async () => {
    reading.resolve()
    await mayRead.promise
    read = (await store.db.selectFrom('revision').selectAll().execute()).length
  })
  await store.bump(store.db)
  await reading.promise
  const closed = store.close()
  mayRead.resolve()
  await closed
  t.equal(read, 1, 'a listener reads what it wants')
  t.strictSame(errors, [], 'and the store is not reported as lost')
})
