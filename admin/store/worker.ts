/** The thread that SQLite lives in: its driver is synchronous, and a flush takes up to 26 ms at p99. */
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { exactSum } from './exact-sum.ts'

export interface Ask {
  id: number
  sql: string
  parameters: SQLInputValue[]
}
export type Answer =
  | { id: number; rows: unknown[]; changes: number; insertId: number }
  | { id: number; error: string }

const file = workerData as string
/** It holds the key that signs tokens: nobody else of this machine reads it, nor the log beside it, which has its mode. */
function create(): void {
  mkdirSync(dirname(file), { recursive: true })
  // one that is there is not opened: to close it would let go of the locks of the process's other connections
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
}
if (file !== ':memory:') create()
const database = new DatabaseSync(file)
// Acknowledged means on disk: FULL flushes the log at each commit.
for (const pragma of [
  'journal_mode = WAL',
  'synchronous = FULL',
  'busy_timeout = 5000',
  'foreign_keys = ON',
])
  database.exec(`PRAGMA ${pragma}`)

// the types know no state but SQL values; the driver takes any
database.aggregate('exact_sum', exactSum as unknown as Parameters<typeof database.aggregate>[1])

const prepared = new Map<string, StatementSync>()
function statement(sql: string): StatementSync {
  let known = prepared.get(sql)
  if (known === undefined) {
    if (prepared.size >= 500) prepared.clear()
    known = database.prepare(sql)
    prepared.set(sql, known)
  }
  return known
}

function run({ id, sql, parameters }: Ask): Answer {
  try {
    const prepared = statement(sql)
    if (prepared.columns().length > 0)
      return { id, rows: prepared.all(...parameters), changes: 0, insertId: 0 }
    const { changes, lastInsertRowid } = prepared.run(...parameters)
    return { id, rows: [], changes: Number(changes), insertId: Number(lastInsertRowid) }
  } catch (error) {
    return { id, error: (error as Error).message }
  }
}

parentPort!.on('message', (ask: Ask | 'close') => {
  if (ask !== 'close') return parentPort!.postMessage(run(ask))
  database.close()
  parentPort!.postMessage('closed')
  parentPort!.close()
})
parentPort!.postMessage('open')
