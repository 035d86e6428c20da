/**
 * Keeps the learner of each mode over the life of the process and beyond it: restored at start, settled by a timer,
 * written to disk on a timer and at exit. A snapshot that is damaged is refused loudly and the one before it serves.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { open, readdir, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzipSync, gzip } from 'node:zlib'
import { createLearner, type Learner } from '../learner.ts'
import type { Learners } from '../ports.ts'

export const modes = ['revenue', 'margin'] as const
export type Mode = (typeof modes)[number]

export interface KeeperLog {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface KeeperOptions {
  /** Where snapshots live; null: nowhere. */
  dir: string | null
  /** Milliseconds. */
  attributionWindow: number
  now: () => number
  log: KeeperLog
  create?: typeof createLearner
  /** Milliseconds between two snapshots, and between two settlings. */
  snapshotEvery?: number
  advanceEvery?: number
}

export interface Keeper extends Learners {
  /** Seconds since the last snapshot of a mode was made or restored; null: none. */
  age(mode: Mode): number | null
  /** Snapshots that were refused, and writes that failed. */
  readonly failures: { refused: number; writes: number }
  save(): Promise<void>
  close(): Promise<void>
}

const hour = 3_600_000
/** A snapshot is never larger, decompressed. */
const largest = 64 * 1024 * 1024
const keptHours = 48
const keptDays = 14
const name = /^(revenue|margin)-(\d{8})-(\d{13})\.bin\.gz$/

interface Kept {
  learner: Learner
  version: number
  at: number | null
}

interface Listed {
  file: string
  version: number
  at: number
}

/** Snapshots of a mode, newest first. */
export function snapshots(files: readonly string[], mode: Mode): Listed[] {
  return files
    .flatMap((file) => {
      const match = name.exec(file)
      return match?.[1] === mode ? [{ file, version: Number(match[2]), at: Number(match[3]) }] : []
    })
    .sort((one, other) => other.version - one.version)
}

/** Which snapshots may go: the newest of each of 48 hours and 14 days stays, and the newest of all. */
export function outdated(list: readonly Listed[], now: number): Listed[] {
  const kept = new Set<string>()
  return list.filter(({ at }, place) => {
    const age = now - at
    const hours = age < keptHours * hour ? `h${Math.floor(at / hour)}` : null
    const days = age < keptDays * 24 * hour ? `d${Math.floor(at / (24 * hour))}` : null
    const stays = [hours, days].some((slot) => slot !== null && !kept.has(slot)) || place === 0
    for (const slot of [hours, days]) if (slot !== null) kept.add(slot)
    return !stays
  })
}

async function writeDurably(dir: string, file: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(dir, `.${file}.tmp`)
  const handle = await open(temporary, 'w', 0o600)
  try {
    await handle.writeFile(bytes)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await rename(temporary, join(dir, file))
}

export function createKeeper(options: KeeperOptions): Keeper {
  const { dir, attributionWindow, now, log, create = createLearner } = options
  const failures = { refused: 0, writes: 0 }
  const learners = new Map<Mode, Kept>()

  function restored(mode: Mode): Kept {
    const files = dir === null ? [] : readdirSync(dir)
    for (const { file, version, at } of snapshots(files, mode)) {
      try {
        const learner = create(
          { attributionWindow },
          gunzipSync(readFileSync(join(dir!, file)), { maxOutputLength: largest }),
        )
        log.info({ mode, file }, 'model restored')
        return { learner, version, at }
      } catch (error) {
        failures.refused++
        log.error(
          { mode, file, err: (error as Error).message },
          'model snapshot refused, the one before it is tried',
        )
      }
    }
    return { learner: create({ attributionWindow }), version: 0, at: null }
  }

  if (dir !== null) mkdirSync(dir, { recursive: true })
  for (const mode of modes) learners.set(mode, restored(mode))

  async function saveMode(mode: Mode): Promise<void> {
    const kept = learners.get(mode)!
    const at = now()
    const version = kept.version + 1
    // Compressed off the event loop: most weights are still 0.
    const bytes = await promisify<Uint8Array, { level: number }, Buffer>(gzip)(
      kept.learner.snapshot(),
      { level: 1 },
    )
    const file = `${mode}-${String(version).padStart(8, '0')}-${String(at).padStart(13, '0')}.bin.gz`
    await writeDurably(dir!, file, bytes)
    kept.version = version
    kept.at = at
    for (const { file: old } of outdated(snapshots(await readdir(dir!), mode), at))
      await unlink(join(dir!, old))
  }

  let saving: Promise<void> | null = null
  async function saveAll(): Promise<void> {
    if (dir === null) return
    for (const mode of modes)
      try {
        await saveMode(mode)
      } catch (error) {
        failures.writes++
        log.error(
          { mode, err: (error as Error).message },
          'model snapshot not written, learning goes on',
        )
      }
  }
  const save = () => {
    saving ??= saveAll().finally(() => {
      saving = null
    })
    return saving
  }

  const timers = [
    setInterval(() => {
      for (const { learner } of learners.values()) learner.advance(now())
    }, options.advanceEvery ?? 250),
    setInterval(() => void save(), options.snapshotEvery ?? 300_000),
  ]
  for (const timer of timers) timer.unref()

  return {
    of: (mode) => learners.get(mode)!.learner,
    version: (mode) => learners.get(mode)!.version,
    age(mode) {
      const { at } = learners.get(mode)!
      return at === null ? null : (now() - at) / 1000
    },
    failures,
    save,
    async close() {
      for (const timer of timers) clearInterval(timer)
      await save()
    },
  }
}
