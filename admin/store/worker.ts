/** The thread that SQLite lives in: its driver is synchronous, and a flush takes up to 26 ms at p99. */
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { type DatabaseFile, inMemoryFile, watchFile } from './database-file.ts'
import { exactSum } from './exact-sum.ts'
import { checkSql, faultOfFile } from './integrity.ts'

export interface Opening {
  file: string
  /** Makes a file that is absent; otherwise that is a fault. */
  create: boolean
  /** The service, of which a file has one: no other program writes to the file itself, if to its log. */
  owns: boolean
}
export interface WorkerRequest {
  id: number
  sql: string
  parameters: SQLInputValue[]
}
export interface Fault {
  error: string
  /** SQLite's primary result code; null: the fault is not SQLite's. */
  result: number | null
}
export type WorkerResponse =
  | { id: number; rows: unknown[]; changes: number; insertId: number }
  | ({ id: number } & Fault)
/** The first word: it is open, or why it is not. */
export type Opened = 'open' | Fault

const { file: given, create, owns } = workerData as Opening
const inMemory = given === ':memory:'
const file = inMemory ? given : resolve(given)
const cantOpen = 14
const corrupt = 11
/** Bytes that the log keeps between two checkpoints; what a long reader let it grow beyond is cut. */
const keptLog = 16 * 1024 * 1024

/** Pages of the log that its owner moves to the file. */
const checkpointPages = 1000

/** It holds the key that signs tokens: nobody else of this machine reads it, nor the log beside it, which has its mode. */
function make(): void {
  // one that is there is not opened: to close it would let go of the locks of the process's other connections
  if (existsSync(file)) return
  if (!create) throw new Error('the file is gone')
  mkdirSync(dirname(file), { recursive: true })
  closeSync(openSync(file, 'a', 0o600))
}

function connect(): DatabaseSync {
  const database = new DatabaseSync(file)
  // Acknowledged means on disk: FULL flushes the log at each commit.
  for (const pragma of [
    'journal_mode = WAL',
    'synchronous = FULL',
    'busy_timeout = 5000',
    'foreign_keys = ON',
    `journal_size_limit = ${keptLog}`,
    `wal_autocheckpoint = ${owns ? checkpointPages : 0}`,
  ])
    database.exec(`PRAGMA ${pragma}`)
  // the log is opened by the first statement that reads
  database.prepare('select count(*) from sqlite_master').all()
  // the types know no state but SQL values; the driver takes any
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

const noResult = { rows: [], changes: 0, insertId: 0 }

function run(database: DatabaseSync, { id, sql, parameters }: WorkerRequest): WorkerResponse {
  // a disk that is full has ended the transaction already
  if (sql === 'rollback' && !database.isTransaction) return { id, ...noResult }
  const prepared = statement(database, sql)
  if (prepared.columns().length > 0)
    return { id, rows: prepared.all(...parameters), changes: 0, insertId: 0 }
  const { changes, lastInsertRowid } = prepared.run(...parameters)
  return { id, rows: [], changes: Number(changes), insertId: Number(lastInsertRowid) }
}

function faultOf(error: unknown): Fault {
  const { message, errcode } = error as Error & { errcode?: number }
  return { error: message, result: errcode === undefined ? null : errcode & 0xff }
}

/** Wrong for good: the paths name other files, and only a restart opens what is there by then. */
let gone: Fault | null = null
/** Wrong until the file has been read and found whole. */
let doubt: Fault | null = null

function suspicion({ database, written }: DatabaseFile): Fault | null {
  if (doubt !== null || !owns || !written()) return doubt
  if (database.isTransaction) database.exec('rollback')
  doubt = { error: `another program has changed ${file} or its log`, result: corrupt }
  return doubt
}

function check({ database, note }: DatabaseFile, id: number): WorkerResponse {
  note()
  const found = faultOfFile(database)
  if (found !== null)
    return { id, error: `the database file ${file} is corrupt: ${found}`, result: corrupt }
  doubt = null
  return { id, ...noResult }
}

/** Acknowledges only what is in the files that the next start opens: their paths are checked after each commit. */
function answer(opened: DatabaseFile, request: WorkerRequest): WorkerResponse {
  const { database, moved, note } = opened
  const { id, sql } = request
  try {
    if (gone === null && sql === checkSql) return check(opened, id)
    const wrong = gone ?? suspicion(opened)
    if (wrong !== null) return { id, ...wrong }
    const done = run(database, request)
    // the database writes to its file in its own statements alone
    note()
    const path = database.isTransaction ? null : moved()
    if (path === null) return done
    gone = { error: `${path} was removed or replaced while it was open: restart`, result: cantOpen }
    return { id, ...gone }
  } catch (error) {
    return { id, ...faultOf(error) }
  }
}

function open(): Opened {
  try {
    if (!inMemory) make()
    const opened = inMemory ? inMemoryFile(connect()) : watchFile(file, connect)
    parentPort!.on('message', (request: WorkerRequest | 'close') => {
      if (request !== 'close') return parentPort!.postMessage(answer(opened, request))
      opened.database.close()
      parentPort!.postMessage('closed')
      parentPort!.close()
    })
    return 'open'
  } catch (error) {
    const fault = faultOf(error)
    return { ...fault, error: `the database file ${file} does not open: ${fault.error}` }
  }
}

parentPort!.postMessage(open())
