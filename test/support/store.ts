/** Real stores of a test's own: one on SQLite, and one on PostgreSQL where that is installed. */
import t, { type Test } from 'tap'
import { openStore, type Store, type StoreOptions } from '../../admin/store/index.ts'
import { postgresAbsent, startPostgres } from './postgres.ts'
import { newFolder } from './process.ts'

export const silent = { info() {}, warn() {}, error() {} }

/** A log whose warnings are kept. */
export function recordingLog() {
  const warnings: string[] = []
  const warn = (_fields: object, text: string) => void warnings.push(text)
  return { warnings, log: { ...silent, warn } }
}

export interface Database {
  url: string
  /** Where the database is a server: it goes away, and comes back. */
  stop?(): Promise<void>
  start?(): Promise<void>
}

/** The same on both databases. */
export function onBoth(test: (t: Test, database: Database) => Promise<void>): void {
  t.test('SQLite', (t) => test(t, { url: `sqlite:${newFolder()}/b.db` }))
  t.test('PostgreSQL', { skip: postgresAbsent }, async (t) => {
    const database = await startPostgres()
    t.teardown(() => database.close())
    await test(t, database)
  })
}

/** The store there, closed when the test ends, after what was opened upon it. */
export async function storeAt(
  t: Test,
  { url }: Database,
  options: Partial<StoreOptions> = {},
): Promise<Store> {
  const store = await openStore(url, { now: Date.now, log: silent, ...options })
  t.teardown(() => store.close())
  return store
}
