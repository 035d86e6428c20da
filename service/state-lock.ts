/**
 * One process for each state folder and each SQLite file: two would write models of the same version, and neither would
 * find the bids of the other. The lock is an exclusive one of an open SQLite file: the system ends it with the process,
 * however that ends, and it holds across containers that share a volume, where process ids repeat.
 */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** The state folder or the database file is in use: the same start works once the other process has ended. */
export class InUseError extends Error {
  override name = 'InUseError'
}

/** Nobody else of this machine reads what is in the state folder, or takes its lock. */
const mode = 0o600
/** SQLite's BUSY: another connection has the lock. */
const busy = 5
/** They are kept until the process ends: a connection that is collected gives its lock up. */
const held: DatabaseSync[] = []

/** The process that has the lock, as it wrote it beside it. */
function holderOf(file: string): string {
  try {
    const { pid, host, since } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
    return `process ${pid} on ${host} since ${since}`
  } catch {
    return 'another process'
  }
}

/** `what` is what the lock at `path` is for, as a message names it. */
function lock(path: string, what: string): void {
  try {
    if (!existsSync(path)) writeFileSync(path, '', { mode, flag: 'a' })
    const database = new DatabaseSync(path, { timeout: 0 })
    // a journal would be left behind by a process that is killed
    database.exec('pragma journal_mode = memory; begin exclusive')
    held.push(database)
  } catch (error) {
    const { errcode, message } = error as Error & { errcode?: number }
    if (errcode === busy) throw new InUseError(`${what} is in use by ${holderOf(`${path}.json`)}`)
    throw new Error(`${what} cannot be locked by ${path}: ${message}`, { cause: error })
  }
  const holder = { pid: process.pid, host: hostname(), since: new Date().toISOString() }
  writeFileSync(`${path}.json`, `${JSON.stringify(holder)}\n`, { mode })
}

/** The path without links, whether there is a file yet or not. */
function realPath(path: string): string {
  const folder = resolve(dirname(path))
  mkdirSync(folder, { recursive: true })
  try {
    return realpathSync(path)
  } catch {
    return join(realpathSync(folder), basename(path))
  }
}

/** Takes the locks until the process ends, or throws an InUseError. */
export function lockState(stateDir: string, database: string): void {
  const folder = resolve(stateDir)
  mkdirSync(folder, { recursive: true })
  lock(join(folder, 'lock'), `the state folder ${folder}`)
  if (!database.startsWith('sqlite:') || database === 'sqlite::memory:') return
  const file = realPath(database.slice('sqlite:'.length))
  lock(`${file}.lock`, `the database file ${file}`)
}
