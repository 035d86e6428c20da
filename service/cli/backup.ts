/** `bidweir backup DIR` and `bidweir restore DIR`: the SQLite file, keys and models, while the service runs. */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { sql } from 'kysely'
import { openReader } from '../../admin/store/reader.ts'
import { InUseError, lockState } from '../state-lock.ts'
import { type CommandStreams, configOf } from './command.ts'
import { CommandError, inUse } from './exit-codes.ts'

interface BackupDeps {
  /** The folder of the backup. */
  dir: string
  stateDir: string
  /** `store.database` of the configuration. */
  database: string
  stdout: CommandStreams['stdout']
}

/** Written last: a folder with this file is complete. */
const mark = 'backup.json'
const databaseCopy = 'bidweir.db'
/** Files of the models folder that are not copied: the mark of an orderly shutdown, and incomplete files. */
const notKept = /^ended-in-order$|\.(new|tmp)$/

const fileOf = (database: string) =>
  database.startsWith('sqlite:') ? database.slice('sqlite:'.length) : null

function sync(path: string): void {
  const fd = openSync(path, 'r')
  fsyncSync(fd)
  closeSync(fd)
}

/** Each file of the state with its path in the source and in the copy. */
function stateFiles(from: string, to: string): { from: string; to: string }[] {
  const models = join(from, 'models')
  const names = existsSync(models)
    ? readdirSync(models, { withFileTypes: true }).filter(
        (each) => each.isFile() && !notKept.test(each.name),
      )
    : []
  const files = names.map(({ name }) => join('models', name))
  if (existsSync(join(from, 'keys.json'))) files.push('keys.json')
  return files.map((name) => ({ from: join(from, name), to: join(to, name) }))
}

function copy(files: readonly { from: string; to: string }[]): void {
  for (const { from, to } of files) {
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 })
    try {
      copyFileSync(from, to)
    } catch (error) {
      // The service deletes an old snapshot when it has written a newer one.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue
      throw error
    }
    sync(to)
  }
}

/** Throws if the copy cannot be completed, and then removes what it has written. */
async function writeBackup(deps: BackupDeps): Promise<void> {
  const { dir } = deps
  if (existsSync(dir) && readdirSync(dir).length > 0)
    throw new Error(`${resolve(dir)} is not empty: a backup goes into a folder of its own`)
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  try {
    await copyAll(deps)
  } catch (error) {
    for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true })
    throw error
  }
}

async function copyAll({ dir, stateDir, database, stdout }: BackupDeps): Promise<void> {
  // The models first. A win that is only in the database is counted but does not train; one that is only in the models would count twice.
  copy(stateFiles(stateDir, dir))
  const sqlite = fileOf(database) !== null
  if (sqlite) {
    const to = join(dir, databaseCopy)
    // Created beforehand with mode 600, because it contains the key that signs tokens. SQLite writes into an empty file.
    writeFileSync(to, '', { mode: 0o600 })
    const { db } = await openReader(database)
    try {
      await sql`vacuum into ${to}`.execute(db)
    } finally {
      await db.destroy()
    }
    sync(to)
  }
  const about = { at: new Date().toISOString(), database: sqlite }
  writeFileSync(join(dir, mark), `${JSON.stringify(about)}\n`)
  sync(join(dir, mark))
  sync(dir)
  const what = sqlite ? 'database, keys and models' : 'keys and models, no database'
  stdout.write(`${resolve(dir)}: ${what}\n`)
}

/** Replaces the state, which no process may use, with the copy. `force`: also if there is a state already. */
function restoreBackup({ dir, stateDir, database, stdout }: BackupDeps, force: boolean): void {
  if (!existsSync(join(dir, mark)))
    throw new Error(`${resolve(dir)} is no backup: ${mark}, which is written last, is not there`)
  const about = JSON.parse(readFileSync(join(dir, mark), 'utf8')) as { database: boolean }
  const file = fileOf(database)
  if (about.database !== (file !== null))
    throw new Error(
      about.database
        ? 'it is a backup of a SQLite file, and store.database is PostgreSQL'
        : 'it is a backup without a database, and store.database is a SQLite file',
    )
  const models = join(stateDir, 'models')
  const keys = join(stateDir, 'keys.json')
  const old = [
    models,
    keys,
    ...(file === null ? [] : ['', '-wal', '-shm'].map((end) => file + end)),
  ]
  const there = old.filter((path) => existsSync(path))
  if (there.length > 0 && !force)
    throw new Error(`there is a state already: ${there.join(', ')}; --force replaces it`)
  // Written beside the old state first, which is removed when the new one is on disk.
  const fresh = join(stateDir, 'restored')
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true, mode: 0o700 })
  copy(stateFiles(dir, fresh))
  if (file !== null) copy([{ from: join(dir, databaseCopy), to: `${file}.restored` }])
  for (const path of old) rmSync(path, { recursive: true, force: true })
  for (const name of readdirSync(fresh)) renameSync(join(fresh, name), join(stateDir, name))
  rmSync(fresh, { recursive: true })
  if (file !== null) renameSync(`${file}.restored`, file)
  sync(stateDir)
  stdout.write(`${resolve(stateDir)}: restored from ${basename(resolve(dir))}\n`)
}

/** Runs `work` on the state of a configuration. The exit code is 75 if another process uses the state, 1 if it fails. */
async function withState(
  file: string | undefined,
  streams: CommandStreams,
  work: (state: { stateDir: string; database: string }) => Promise<void> | void,
): Promise<void> {
  const { stateDir, store } = await configOf(file, streams)
  try {
    await work({ stateDir, database: store.database })
  } catch (error) {
    throw new CommandError(error instanceof InUseError ? inUse : 1, (error as Error).message)
  }
}

/** `keep`: `dir` is a folder of backups; the newest `keep` of them stay. */
export function backup(
  file: string | undefined,
  dir: string,
  streams: CommandStreams,
  keep?: number,
): Promise<void> {
  const to = keep === undefined ? dir : join(dir, new Date().toISOString().replaceAll(':', '-'))
  return withState(file, streams, async (state) => {
    await writeBackup({ ...state, dir: to, stdout: streams.stdout })
    if (keep !== undefined) removeOld(dir, keep)
  })
}

const backupName = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/

/** Incomplete copies go as well: this is called when a newer one is complete. */
function removeOld(dir: string, keep: number): void {
  const names = readdirSync(dir)
    .filter((name) => backupName.test(name))
    .sort()
  const complete = names.filter((name) => existsSync(join(dir, name, mark)))
  const kept = new Set(complete.slice(-keep))
  for (const name of names)
    if (!kept.has(name)) rmSync(join(dir, name), { recursive: true, force: true })
}

export function restore(
  file: string | undefined,
  dir: string,
  force: boolean,
  streams: CommandStreams,
): Promise<void> {
  return withState(file, streams, async (state) => {
    lockState(state.stateDir, state.database)
    restoreBackup({ ...state, dir, stdout: streams.stdout }, force)
  })
}
