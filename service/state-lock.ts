/**
 * Only one process may use a state folder or a SQLite file: two would write models of the same version, and neither would
 * find the bids of the other. The lock is the exclusive lock of an open SQLite file. The system releases it when the
 * process ends, and it works across containers that share a volume, where process ids repeat.
 */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** The state folder or the database file is in use by another process. */
export class InUseError extends Error {
  override name = 'InUseError'
}

/** Other users of the machine can neither read the state folder nor take its lock. */
const mode = 0o600
/** SQLite's BUSY: another connection has the lock. */
const busy = 5
/** Kept until the process ends: a connection that is garbage collected releases its lock. */
const locks: DatabaseSync[] = []

/** The process that has the lock, from the file beside the lock, which may be missing or incomplete. */
function holderOf(file: string): string {
  try {
    const { pid, host, since } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
    return `process ${pid} on ${host} since ${since}`
  } catch {
    return 'another process'
  }
}

/** `what` names the locked thing in error messages. */
function lock(path: string, what: string): void {
  try {
    if (!existsSync(path)) writeFileSync(path, '', { mode, flag: 'a' })
    const database = new DatabaseSync(path, { timeout: 0 })
    // A process that is killed would leave a journal file behind.
    database.exec('pragma journal_mode = memory; begin exclusive')
    locks.push(database)
  } catch (error) {
    const { errcode, message } = error as Error & { errcode?: number }
    if (errcode === busy) throw new InUseError(`${what} is in use by ${holderOf(`${path}.json`)}`)
    throw new Error(`${what} cannot be locked by ${path}: ${message}`, { cause: error })
  }
  const holder = { pid: process.pid, host: hostname(), since: new Date().toISOString() }
  writeFileSync(`${path}.json`, `${JSON.stringify(holder)}\n`, { mode })
}

/** Makes a folder, and the folders above it. */
function makeFolder(path: string, what: string): void {
  try {
    mkdirSync(path, { recursive: true })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    const why = code === 'EEXIST' ? 'a file has this name' : message
    throw new Error(`${what} ${path} cannot be made: ${why}`, { cause: error })
  }
}

/** The path without symbolic links; the file need not exist. */
function realPath(path: string): string {
  const folder = resolve(dirname(path))
  makeFolder(folder, 'the folder of the database')
  try {
    return realpathSync(path)
  } catch {
    return join(realpathSync(folder), basename(path))
  }
}

/**
 * Takes the locks until the process ends.
 *
 * @param stateDir the state folder, which is created if it does not exist
 * @param database a URL of `store.database`; a SQLite file has a lock of its own, because it may be in another folder
 * @throws InUseError if another process has a lock
 */
export function lockState(stateDir: string, database: string): void {
  const folder = resolve(stateDir)
  makeFolder(folder, 'the state folder')
  lock(join(folder, 'lock'), `the state folder ${folder}`)
  if (!database.startsWith('sqlite:') || database === 'sqlite::memory:') return
  const file = realPath(database.slice('sqlite:'.length))
  lock(`${file}.lock`, `the database file ${file}`)
}
