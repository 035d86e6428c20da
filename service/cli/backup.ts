/**
 * `bidweir backup` and `bidweir restore`: database, keys, models and configuration, while the service runs, in a folder or a
 * bucket.
 */
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, relative, resolve } from 'node:path'
import { sql } from 'kysely'
import { checkSchema } from '../../admin/store/migrations/index.ts'
import { openReader } from '../../admin/store/reader.ts'
import type { Bucket } from '../backup/bucket.ts'
import type { LoadedConfig } from '../config/check.ts'
import type { Config } from '../config/schema.ts'
import { keysFile, loadOrCreateKeys } from '../context-keys.ts'
import { createLog } from '../log/log.ts'
import { modelsDirOf } from '../models.ts'
import { InUseError, lockState } from '../state-lock.ts'
import { type CommandStreams, loadedOf } from './command.ts'
import { CommandError, inUse } from './exit-codes.ts'

/** What has rows in the backup; null: no database. */
type Kind = 'sqlite' | 'postgres' | null

/** Written last: a folder with this file is complete. */
const mark = 'backup.json'
/** The same while the backup is written. Only one process can create it. */
const incompleteMark = `${mark}.new`
const databaseCopy = 'bidweir.db'
const configurationCopy = 'configuration'
/** Files of the models folder that are not copied: the mark of an orderly shutdown, and incomplete files. */
const notKept = /^ended-in-order$|\.(new|tmp)$/

/** Whether a target is meant to be in a bucket. */
const isBucketUrl = (target: string) => target.startsWith('s3:')

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
        (entry) => entry.isFile() && !notKept.test(entry.name),
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

interface NewBackup {
  /** The folder of the backup. */
  dir: string
  config: Config
  /** The files of the configuration, by absolute path. */
  files: Iterable<string>
  /** false: without the rows of PostgreSQL. */
  rows: boolean
}

/** Throws if the folder is not empty, or if another backup is being written into it. */
function claimFolder(dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const used = `${resolve(dir)} is not empty: a backup goes into a folder of its own`
  if (readdirSync(dir).length > 0) throw new Error(used)
  const claim = join(dir, incompleteMark)
  try {
    writeFileSync(claim, '', { flag: 'wx', mode: 0o600 })
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? new Error(used) : error
  }
  // Another backup may have been completed between the two looks.
  if (readdirSync(dir).length === 1) return
  rmSync(claim)
  throw new Error(used)
}

/** Throws if the copy cannot be completed, and then removes what it has written. */
async function writeBackup(deps: NewBackup): Promise<string> {
  const { dir } = deps
  claimFolder(dir)
  try {
    return await copyAll(deps)
  } catch (error) {
    for (const name of readdirSync(dir)) rmSync(join(dir, name), { recursive: true })
    throw error
  }
}

/** Below `configuration`, each at its path: what the service reads, keys and passwords included. */
function copyConfiguration(files: Iterable<string>, dir: string): void {
  const regular = [...files].filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile())
  copy(regular.map((from) => ({ from, to: join(dir, configurationCopy, from) })))
}

/** Returns what the backup has. */
async function copyAll({ dir, config, files, rows }: NewBackup): Promise<string> {
  const {
    stateDir,
    store: { database, redis },
  } = config
  copyConfiguration(files, dir)
  // The models first. A win that is only in the database is counted but does not train; one that is only in the models would count twice.
  copy(stateFiles(stateDir, dir))
  if (redis !== null) {
    const { saveSharedModels } = await import('../../opd/state/shared-model-copy.ts')
    await saveSharedModels(redis, join(dir, 'models'), Date.now())
  }
  const kind: Kind = fileOf(database) !== null ? 'sqlite' : rows ? 'postgres' : null
  if (kind === 'sqlite') await copySqlite(database, join(dir, databaseCopy))
  if (kind === 'postgres') await (await import('../backup/rows.ts')).copyRows(database, dir)
  const about = { at: new Date().toISOString(), database: kind }
  const incomplete = join(dir, incompleteMark)
  writeFileSync(incomplete, `${JSON.stringify(about)}\n`)
  sync(incomplete)
  renameSync(incomplete, join(dir, mark))
  sync(dir)
  return kind === null
    ? 'keys, models and configuration, no database'
    : 'database, keys, models and configuration'
}

async function copySqlite(database: string, to: string): Promise<void> {
  // Created beforehand with mode 600, because it contains the key that signs tokens. SQLite writes into an empty file.
  writeFileSync(to, '', { mode: 0o600 })
  const { db } = await openReader(database)
  try {
    await sql`vacuum into ${to}`.execute(db)
  } catch (error) {
    // SQLite does not say whether it is the database or the copy.
    throw new Error(`${database} cannot be copied to ${to}: ${(error as Error).message}`, {
      cause: error,
    })
  } finally {
    await db.destroy()
  }
  sync(to)
}

function kindOf(dir: string, name: string, database: string): Kind {
  if (!existsSync(join(dir, mark)))
    throw new Error(`${name} is no backup: ${mark}, which is written last, is not there`)
  const kind = kindIn(join(dir, mark), name)
  const isFile = fileOf(database) !== null
  if (kind === 'sqlite' && !isFile)
    throw new Error('it is a backup of a SQLite file, and store.database is PostgreSQL')
  if (kind === 'postgres' && isFile)
    throw new Error('it is a backup of PostgreSQL, and store.database is a SQLite file')
  if (kind === null && isFile)
    throw new Error('it is a backup without a database, and store.database is a SQLite file')
  if (isFile && !existsSync(join(dir, databaseCopy)))
    throw new Error(`${name} is incomplete: it has no ${databaseCopy}`)
  return kind
}

const damaged = (name: string, file: string, error: unknown) =>
  new Error(`${name} is damaged: ${file}: ${(error as Error).message}`, { cause: error })

function kindIn(file: string, name: string): Kind {
  try {
    const { database: kind } = JSON.parse(readFileSync(file, 'utf8')) as { database: Kind }
    if (kind === null || kind === 'sqlite' || kind === 'postgres') return kind
    throw new Error('it names no kind of database')
  } catch (error) {
    throw damaged(name, mark, error)
  }
}

/** Throws if the folder has a file of keys without keys. */
function checkKeys(fresh: string, name: string): void {
  const file = keysFile(fresh)
  try {
    if (existsSync(file)) loadOrCreateKeys(fresh)
  } catch (error) {
    throw damaged(name, basename(file), error)
  }
}

/** Throws if the copy of a database is damaged, was not made by bidweir, or is of a newer version that this one cannot use. */
async function checkDatabase(copied: string, name: string): Promise<void> {
  const { db } = await openReader(`sqlite:${copied}`)
  try {
    const { rows } = await sql<{ quick_check: string }>`pragma quick_check(1)`.execute(db)
    if (rows[0]?.quick_check !== 'ok') throw new Error(rows[0]?.quick_check)
    await checkSchema(db)
  } catch (error) {
    throw damaged(name, databaseCopy, error)
  } finally {
    await db.destroy()
  }
}

/** Replaces the state, which no process may use, with the copy. `force`: also if there is a state already. */
async function restoreBackup(
  { dir, config }: Pick<NewBackup, 'dir' | 'config'>,
  name: string,
  force: boolean,
): Promise<void> {
  const {
    stateDir,
    store: { database, redis },
  } = config
  const kind = kindOf(dir, name, database)
  const file = fileOf(database)
  const models = modelsDirOf(config)
  const keys = join(stateDir, 'keys.json')
  const old = [
    models,
    keys,
    ...(file === null ? [] : ['', '-wal', '-shm'].map((end) => file + end)),
  ]
  const there = old.filter((path) => existsSync(path))
  if (there.length > 0 && !force)
    throw new Error(`there is a state already: ${there.join(', ')}; --force replaces it`)
  // Written beside the old state first, which is removed when the new one is on disk and was checked.
  const fresh = join(stateDir, 'restored')
  const inside = [models, fresh].find((folder) => !relative(folder, dir).startsWith('..'))
  if (inside !== undefined) throw new Error(`${name} is in ${inside}, which is replaced`)
  const freshDatabase = `${file}.restored`
  try {
    rmSync(fresh, { recursive: true, force: true })
    mkdirSync(fresh, { recursive: true, mode: 0o700 })
    copy(stateFiles(dir, fresh))
    checkKeys(fresh, name)
    if (file !== null) {
      copy([{ from: join(dir, databaseCopy), to: freshDatabase }])
      await checkDatabase(freshDatabase, name)
    }
    if (kind === 'postgres')
      await (await import('../backup/rows.ts')).restoreRows(
        database,
        dir,
        force,
        createLog('error'),
      )
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true })
    if (file !== null) rmSync(freshDatabase, { force: true })
    throw error
  }
  for (const path of old) rmSync(path, { recursive: true, force: true })
  for (const name of readdirSync(fresh)) renameSync(join(fresh, name), join(stateDir, name))
  rmSync(fresh, { recursive: true })
  if (file !== null) renameSync(freshDatabase, file)
  sync(stateDir)
  if (redis !== null && existsSync(models)) {
    const { shareSnapshots } = await import('../../opd/state/shared-model-copy.ts')
    await shareSnapshots(redis, models)
  }
}

/** Runs `work` on a configuration. The exit code is 75 if another process uses the state, 1 if it fails. */
async function withState(
  file: string | undefined,
  streams: CommandStreams,
  work: (loaded: LoadedConfig & { config: Config }) => Promise<void>,
): Promise<void> {
  const loaded = await loadedOf(file, streams)
  try {
    await work(loaded)
  } catch (error) {
    const { name, message } = error as Error
    const isUsed = error instanceof InUseError || name === 'SharedModelsInUseError'
    throw new CommandError(isUsed ? inUse : 1, message)
  }
}

/** Runs `work` with the bucket that the URL names and a temporary folder. */
async function withBucket<T>(
  url: string,
  work: (bucket: Bucket, folder: string) => Promise<T>,
): Promise<T> {
  const { Bucket } = await import('../backup/bucket.ts')
  const bucket = new Bucket(url)
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-backup-'))
  try {
    return await work(bucket, folder)
  } finally {
    rmSync(folder, { recursive: true })
    bucket.close()
  }
}

export interface BackupOptions {
  /** The target has backups, each named by its time; the newest `keep` of them stay. */
  keep?: number
  /** false: without the rows of PostgreSQL. */
  database?: boolean
}

export function backup(
  file: string | undefined,
  target: string,
  streams: CommandStreams,
  { keep, database: rows = true }: BackupOptions,
): Promise<void> {
  const name = keep === undefined ? '' : new Date().toISOString().replaceAll(':', '-')
  return withState(file, streams, async ({ config, files }) => {
    const { stdout } = streams
    const deps = { config, files: files.keys(), rows }
    if (isBucketUrl(target)) {
      const what = await withBucket(target, async (bucket, dir) => {
        if ((await bucket.list(name)).length > 0)
          throw new Error(`${target} is not empty: a backup needs a prefix of its own`)
        const what = await writeBackup({ ...deps, dir })
        await bucket.uploadFolder(dir, name, mark)
        if (keep !== undefined) await bucket.remove(outdated(await bucket.list(), keep))
        return what
      })
      stdout.write(`${[target.replace(/\/+$/, ''), name].filter(Boolean).join('/')}: ${what}\n`)
      return
    }
    const dir = join(target, name)
    stdout.write(`${resolve(dir)}: ${await writeBackup({ ...deps, dir })}\n`)
    if (keep === undefined) return
    const paths = readdirSync(target).flatMap((name) =>
      existsSync(join(target, name, mark)) ? [name, `${name}/${mark}`] : [name],
    )
    for (const path of outdated(paths, keep))
      rmSync(join(target, path), { recursive: true, force: true })
  })
}

const backupName = /^\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/

/** Paths of all but the newest backups. Incomplete ones go as well: this is called when a newer one is complete. */
function outdated(paths: readonly string[], keep: number): string[] {
  const complete = paths
    .filter((path) => backupName.test(dirname(path)) && basename(path) === mark)
    .sort()
  const kept = new Set(complete.slice(-keep).map(dirname))
  return paths.filter((path) => {
    const [name = ''] = path.split('/')
    return backupName.test(name) && !kept.has(name)
  })
}

export function restore(
  file: string | undefined,
  source: string,
  force: boolean,
  streams: CommandStreams,
): Promise<void> {
  return withState(file, streams, async ({ config }) => {
    const { stateDir, store } = config
    lockState(stateDir, store.database)
    if (isBucketUrl(source))
      await withBucket(source, async (bucket, dir) => {
        await bucket.download('', dir)
        await restoreBackup({ dir, config }, source, force)
      })
    else await restoreBackup({ dir: source, config }, resolve(source), force)
    streams.stdout.write(
      `${resolve(stateDir)}: restored from ${basename(isBucketUrl(source) ? source : resolve(source))}\n`,
    )
  })
}
