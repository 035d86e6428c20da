/**
 * The rows of a PostgreSQL database in files, one for each table: a JSON object per line, as PostgreSQL writes and reads them, so
 * that no number passes through one of JavaScript. All are of one moment, while the service runs.
 */
import {
  createReadStream,
  createWriteStream,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import pg from 'pg'
import { openStore } from '../../admin/store/index.ts'
import { createLedgerDays } from '../../admin/store/ledger-sql.ts'
import type { Log } from '../../opd/base/log.ts'
import { InUseError } from '../state-lock.ts'

interface RowsHead {
  migrations: string[]
  /** Days of the ledger. */
  days: number[]
  tables: Record<string, number>
}

const folder = 'database'
const headFile = 'tables.json'
/** Rows of one fetch and of one insert. */
const batch = 1000
/** Milliseconds since a node last said that it is alive, in which it may still be. */
const aliveFor = 30_000

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  await client.connect()
  // A long copy may be meant although the role has limits for statements.
  await client.query('set statement_timeout = 0')
  return client
}

async function within<T>(url: string, begin: string, work: (client: pg.Client) => Promise<T>) {
  const client = await connect(url)
  try {
    await client.query(begin)
    const result = await work(client)
    await client.query('commit')
    return result
  } finally {
    // It rolls back what was not committed.
    await client.end()
  }
}

/** Each table of the schema; of a table with partitions the table alone. */
async function tablesOf(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(`
    select relname as name from pg_class
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
      and not relispartition and relname <> 'migrations'
    order by relname`)
  return rows.map(({ name }) => name)
}

const migrationsOf = async (client: pg.Client) =>
  (await client.query<{ id: string }>('select id from migrations order by id')).rows.map(
    ({ id }) => id,
  )

/** Pieces of many lines: a piece per row would cost more than the compression. */
async function* linesOf(client: pg.Client, table: string, counted: (rows: number) => void) {
  const cursor = quoted(`rows of ${table}`)
  const rows = `select row_to_json(t)::text as line from ${quoted(table)} as t`
  await client.query(`declare ${cursor} no scroll cursor for ${rows}`)
  for (;;) {
    const { rows } = await client.query<{ line: string }>(`fetch ${batch} from ${cursor}`)
    if (rows.length === 0) break
    counted(rows.length)
    yield `${rows.map(({ line }) => line).join('\n')}\n`
  }
  await client.query(`close ${cursor}`)
}

/** Writes the rows of all tables below `dir`. Returns their number. */
export async function copyRows(url: string, dir: string): Promise<number> {
  const to = join(dir, folder)
  mkdirSync(to, { mode: 0o700 })
  const begin = 'begin isolation level repeatable read read only'
  const head = await within(url, begin, async (client): Promise<RowsHead> => {
    const tables: Record<string, number> = {}
    for (const table of await tablesOf(client)) {
      tables[table] = 0
      const lines = Readable.from(
        linesOf(client, table, (rows) => {
          tables[table]! += rows
        }),
      )
      const file = createWriteStream(join(to, `${table}.gz`), { mode: 0o600, flush: true })
      await pipeline(lines, createGzip({ level: 1 }), file)
    }
    const { rows: days } = await client.query<{ end: string }>(`
      select substring(pg_get_expr(c.relpartbound, c.oid) from 'TO \\(''?(\\d+)') as end
      from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
      where i.inhparent = 'ledger_days'::regclass`)
    return {
      migrations: await migrationsOf(client),
      days: days.map(({ end }) => Number(end) - 1),
      tables,
    }
  })
  writeFileSync(join(to, headFile), `${JSON.stringify(head)}\n`, { flush: true })
  return Object.values(head.tables).reduce((sum, rows) => sum + rows, 0)
}

async function insertRows(client: pg.Client, table: string, file: string): Promise<number> {
  const name = quoted(table)
  const insert = `insert into ${name} select * from json_populate_recordset(null::${name}, $1::json)`
  const input = createGunzip()
  // The reader of the lines rejects with an error of the file.
  pipeline(createReadStream(file), input).catch(() => {})
  let lines: string[] = []
  let count = 0
  const flush = async () => {
    if (lines.length > 0) await client.query(insert, [`[${lines.join()}]`])
    count += lines.length
    lines = []
  }
  for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
    lines.push(line)
    if (lines.length === batch) await flush()
  }
  await flush()
  return count
}

/** The next values of columns that number their rows follow the rows. */
async function setSequences(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ table: string; column: string }>(`
    select table_name as "table", column_name as "column" from information_schema.columns
    where table_schema = current_schema() and column_default like 'nextval(%'`)
  for (const { table, column } of rows)
    await client.query(
      `select setval(pg_get_serial_sequence($1, $2), coalesce(max(${quoted(column)}), 1), max(${quoted(column)}) is not null)
       from ${quoted(table)}`,
      [quoted(table), column],
    )
}

/** Rejects if a node works with the database, or, without `force`, if it has users or wins already. */
async function refuseUsed(client: pg.Client, force: boolean): Promise<void> {
  const { rows } = await client.query<{ alive: boolean; full: boolean }>(
    `select exists(select from outcome_nodes
         where alive > 1000 * extract(epoch from clock_timestamp()) - $1) as alive,
       exists(select from users) or exists(select from ledger_days) as full`,
    [aliveFor],
  )
  if (rows[0]!.alive)
    throw new InUseError(
      `a node works with the database, or did so in the last ${aliveFor / 1000} s: stop all nodes`,
    )
  if (rows[0]!.full && !force)
    throw new Error('the database has users or wins already; --force replaces them')
}

/** Replaces the rows of all tables, all or nothing, by those below `dir`. The database need not have tables yet. */
export async function restoreRows(url: string, dir: string, force: boolean, log: Log) {
  const from = join(dir, folder)
  const head = JSON.parse(readFileSync(join(from, headFile), 'utf8')) as RowsHead
  const missing = Object.keys(head.tables).filter((table) => !existsSync(join(from, `${table}.gz`)))
  if (missing.length > 0) throw new Error(`the backup lacks the rows of ${missing.join(', ')}`)
  const store = await openStore(url, { now: Date.now, log })
  try {
    await createLedgerDays(store.db).ensure(head.days)
  } finally {
    await store.close()
  }
  await within(url, 'begin', async (client) => {
    const present = await migrationsOf(client)
    if (present.join() !== head.migrations.join())
      throw new Error(
        `the backup has the schema ${head.migrations.join(', ')}, this version has ${present.join(', ')}: restore it with the version that wrote it`,
      )
    const tables = await tablesOf(client)
    await client.query(`lock table ${tables.map(quoted).join()} in access exclusive mode`)
    await refuseUsed(client, force)
    await client.query(`truncate ${tables.map(quoted).join()}`)
    for (const [table, rows] of Object.entries(head.tables)) {
      const file = join(from, `${table}.gz`)
      const inserted = await insertRows(client, table, file).catch((error: Error) => {
        throw new Error(`${file} cannot be restored: ${error.message}`, { cause: error })
      })
      if (inserted !== rows)
        throw new Error(`${table} has ${inserted} rows in the backup, which counted ${rows}`)
    }
    await setSequences(client)
  })
}
