/** The worker thread of SQLite: its driver is synchronous, and a flush takes up to 26 ms at p99. */

import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { type Decimal, decimalText, plus, signedDecimal, zero } from '../../opd/base/decimal.ts'
import { checkSql, type DatabaseFile, faultOfFile, inMemoryFile, watchFile } from './sqlite-file.ts'

interface Sum {
  /** Millionths of short texts, a safe integer. This costs a third of a BigInt. */
  micros: number
  total: Decimal
}

/** Texts up to this length with at most six fractional digits are safe integers in millionths. */
const longestShort = 15
/** Beyond, the millionths are added to `total`. */
const spill = 2 ** 52

function add(sum: Sum, text: unknown): Sum {
  if (typeof text !== 'string') return sum
  const point = text.indexOf('.')
  const scale = point === -1 ? 0 : text.length - point - 1
  if (scale <= 6 && text.length - scale <= longestShort - 6) {
    sum.micros += Math.round(Number(text) * 1e6)
    if (Math.abs(sum.micros) > spill) flush(sum)
  } else sum.total = plus(sum.total, signedDecimal(text))
  return sum
}

function flush(sum: Sum): void {
  sum.total = plus(sum.total, { digits: BigInt(sum.micros), scale: 6 })
  sum.micros = 0
}

/**
 * Exact sums of decimal texts, as `DatabaseSync.aggregate` needs them. SQLite's own sum of integers would fail
 * permanently after one notice with an absurd price. PostgreSQL uses `sum(numeric)`.
 */
const exactSum = {
  start: (): Sum => ({ micros: 0, total: zero }),
  step: add,
  result(sum: Sum): string {
    flush(sum)
    return decimalText(sum.total)
  },
}

export interface Opening {
  file: string
  /** Creates the file if it does not exist; false: a missing file is a fault. */
  create: boolean
  /** True for the service: no other program writes to the file itself, though commands write to its log. */
  owns: boolean
}
export interface WorkerRequest {
  id: number
  sql: string
  parameters: SQLInputValue[]
  /** JSON: parameters for each execution of the statement, which has no rows as its result. */
  rows?: string
}
export interface Fault {
  error: string
  /** SQLite's primary result code; null for other errors. */
  result: number | null
}
export type WorkerResponse =
  | { id: number; rows: unknown[]; changes: number }
  | ({ id: number } & Fault)
/** The first message: the database is open, or the reason that it is not. */
export type Opened = 'open' | Fault

const { file: given, create, owns } = workerData as Opening
const inMemory = given === ':memory:'
const file = inMemory ? given : resolve(given)
const busy = 5
const cantOpen = 14
const corrupt = 11
/** Size of the log in bytes between two checkpoints. If a long reader lets it grow, it is truncated to this. */
const keptLog = 16 * 1024 * 1024

/** Milliseconds that a statement waits for the lock of another program. */
const lockTimeout = 5000

/** Log pages after which the service makes a checkpoint. */
const checkpointPages = 1000

/**
 * The database contains the key that signs tokens, so only its owner may read the file. The log beside it gets the
 * same mode.
 */
function createFile(): void {
  // an existing file is not opened here: closing it would release the locks of other connections of this process
  if (existsSync(file)) return
  if (!create) throw new Error('the file is missing')
  mkdirSync(dirname(file), { recursive: true })
  closeSync(openSync(file, 'a', 0o600))
}

/**
 * Changes the file to WAL, which SQLite refuses at once, without its timeout, while another connection writes: commands that
 * run at once change a new file.
 */
function useLog(database: DatabaseSync): void {
  const end = performance.now() + lockTimeout
  for (;;)
    try {
      database.exec('PRAGMA journal_mode = WAL')
      return
    } catch (error) {
      if (faultOf(error).result !== busy || performance.now() > end) throw error
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10)
    }
}

function connect(): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: lockTimeout })
  useLog(database)
  // Acknowledged means on disk: FULL flushes the log at each commit.
  for (const pragma of [
    'synchronous = FULL',
    `journal_size_limit = ${keptLog}`,
    `wal_autocheckpoint = ${owns ? checkpointPages : 0}`,
  ])
    database.exec(`PRAGMA ${pragma}`)
  // the first read statement opens the log
  database.prepare('select count(*) from sqlite_master').all()
  // the types only allow SQL values as state; the driver accepts any
  database.aggregate('exact_sum', exactSum as unknown as Parameters<typeof database.aggregate>[1])
  return database
}

const prepared = new Map<string, StatementSync>()
function statement(database: DatabaseSync, sql: string): StatementSync {
  let known = prepared.get(sql)
  if (known === undefined) {
    if (prepared.size >= 500) prepared.clear()
    known = database.prepare(sql)
    prepared.set(sql, known)
  }
  return known
}

const noResult = { rows: [], changes: 0 }

/** Executes a statement for each row, or for none. Returns how many rows it changed. */
function runEach(database: DatabaseSync, prepared: StatementSync, rows: SQLInputValue[][]): number {
  // Within a transaction of the caller, too.
  database.exec('savepoint each_row')
  try {
    let changes = 0
    for (const row of rows) changes += Number(prepared.run(...row).changes)
    database.exec('release each_row')
    return changes
  } catch (error) {
    // A full disk has ended the transaction already.
    if (database.isTransaction) database.exec('rollback to each_row; release each_row')
    throw error
  }
}

function run(database: DatabaseSync, { id, sql, parameters, rows }: WorkerRequest): WorkerResponse {
  // a full disk has ended the transaction already
  if (sql === 'rollback' && !database.isTransaction) return { id, ...noResult }
  const prepared = statement(database, sql)
  if (rows !== undefined)
    return { id, rows: [], changes: runEach(database, prepared, JSON.parse(rows)) }
  if (prepared.columns().length > 0) return { id, rows: prepared.all(...parameters), changes: 0 }
  return { id, rows: [], changes: Number(prepared.run(...parameters).changes) }
}

function faultOf(error: unknown): Fault {
  const { message, errcode } = error as Error & { errcode?: number }
  return { error: message, result: errcode === undefined ? null : errcode & 0xff }
}

/** Acknowledges only commits to the files that the next start would open: their paths are checked after each commit. */
class CheckedDatabase {
  private readonly opened: DatabaseFile
  /** A permanent fault: the paths have other files, which only a restart would open. */
  private replaced: Fault | null = null
  /** A fault that lasts until a check of the file succeeds. */
  private suspect: Fault | null = null

  constructor(opened: DatabaseFile) {
    this.opened = opened
  }

  execute(request: WorkerRequest): WorkerResponse {
    const { database, moved, note } = this.opened
    const { id, sql } = request
    try {
      if (this.replaced === null && sql === checkSql) return this.check(id)
      const wrong = this.replaced ?? this.suspicion()
      if (wrong !== null) return { id, ...wrong }
      const done = run(database, request)
      // the database writes to its file only within its own statements
      note()
      const path = database.isTransaction ? null : moved()
      if (path === null) return done
      this.replaced = {
        error: `${path} was removed or replaced while it was open: restart`,
        result: cantOpen,
      }
      return { id, ...this.replaced }
    } catch (error) {
      return { id, ...faultOf(error) }
    }
  }

  close(): void {
    this.opened.database.close()
  }

  private suspicion(): Fault | null {
    const { database, written } = this.opened
    if (this.suspect !== null || !owns || !written()) return this.suspect
    if (database.isTransaction) database.exec('rollback')
    this.suspect = { error: `another program has changed ${file} or its log`, result: corrupt }
    return this.suspect
  }

  private check(id: number): WorkerResponse {
    const { database, note } = this.opened
    note()
    const found = faultOfFile(database)
    if (found !== null)
      return { id, error: `the database file ${file} is corrupt: ${found}`, result: corrupt }
    this.suspect = null
    return { id, ...noResult }
  }
}

function open(): Opened {
  try {
    if (!inMemory) createFile()
    const database = new CheckedDatabase(
      inMemory ? inMemoryFile(connect()) : watchFile(file, connect),
    )
    parentPort!.on('message', (request: WorkerRequest | 'close') => {
      if (request !== 'close') return parentPort!.postMessage(database.execute(request))
      database.close()
      parentPort!.close()
    })
    return 'open'
  } catch (error) {
    const fault = faultOf(error)
    return { ...fault, error: `the database file ${file} does not open: ${fault.error}` }
  }
}

parentPort!.postMessage(open())
