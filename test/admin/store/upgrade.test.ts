/**
 * A rolling update runs the last version beside the new one, on the schema of the new one. What the last version wrote and
 * read is in the fixture: its tables and columns must be there, and whatever was added must be optional. A migration
 * that cannot keep to this is `required`; the last version then refuses to start.
 *
 * At a release: UPDATE_SCHEMA=1 node test/admin/store/upgrade.test.ts
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { migrations } from '../../../admin/store/migrations/index.ts'
import { onBoth, storeAt } from '../../support/store.ts'

interface Column {
  type: string
  optional: boolean
}
type Schema = Record<string, Record<string, Column>>
interface Fixture {
  migrations: string[]
  sqlite: Schema
  postgres: Schema
}

const file = new URL('fixtures/schema-of-last-release.json', import.meta.url)
const read = () => JSON.parse(readFileSync(file, 'utf8')) as Fixture

onBoth(async (t, database) => {
  const store = await storeAt(t, database)
  const kind = store.postgres ? 'postgres' : 'sqlite'
  const tables = await store.db.introspection.getTables()
  const schema: Schema = {}
  for (const { name, columns } of tables)
    schema[name] = Object.fromEntries(
      columns.map(({ name, dataType, isNullable, hasDefaultValue, isAutoIncrementing }) => [
        name,
        { type: dataType, optional: isNullable || hasDefaultValue || isAutoIncrementing },
      ]),
    )
  if (process.env['UPDATE_SCHEMA'] === '1') {
    const ids = migrations.map(({ id }) => id)
    const written = { ...read(), migrations: ids, [kind]: schema }
    writeFileSync(file, `${JSON.stringify(written, null, 2)}\n`)
  }
  const last = read()
  const added = migrations.filter(({ id }) => !last.migrations.includes(id))
  t.same(
    last.migrations.filter((id) => !migrations.some((each) => each.id === id)),
    [],
    'no migration of the last release has gone',
  )
  if (added.some(({ required }) => required))
    return t.comment('the last version refuses to start beside this one')

  for (const [table, columns] of Object.entries(last[kind])) {
    const now = schema[table] ?? {}
    for (const [name, column] of Object.entries(columns))
      t.match(
        now[name] ?? {},
        { type: column.type, optional: column.optional || Boolean },
        `${table}.${name}`,
      )
    for (const [name, { optional }] of Object.entries(now))
      t.ok(
        optional || columns[name] !== undefined,
        `${table}.${name} is optional to the last version`,
      )
  }
})
