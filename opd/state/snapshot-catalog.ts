/** Lists the snapshots of one node, and loads one to roll back to. */
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createLearner } from '../learner.ts'
import { type Mode, modes } from '../shared/arms.ts'
import { snapshots, unpack } from './snapshots.ts'

export interface SnapshotRow {
  /** `revenue-12` */
  id: string
  mode: Mode
  /** ISO time. */
  at: string
  bytes: number
  newest: boolean
}

/** A model to roll back to. */
interface LoadedSnapshot {
  mode: Mode
  snapshot: string
  base: Uint8Array
}

/** `absent`: no such snapshot on this node; `damaged`: it cannot be read. */
export class SnapshotCatalogError extends Error {
  override name = 'SnapshotCatalogError'
  readonly code: 'absent' | 'damaged'

  constructor(code: SnapshotCatalogError['code'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

export type SnapshotCatalog = ReturnType<typeof snapshotCatalog>

/** The files of a folder; none if there is no folder yet. */
async function filesOf(dir: string): Promise<string[]> {
  try {
    return await readdir(dir)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/**
 * The newest snapshot of each mode that can be read.
 *
 * @param dir the folder of the snapshots
 * @returns at most one of each mode
 * @throws if the newest snapshot of a mode is damaged
 */
export async function newestSnapshots(dir: string) {
  const files = await filesOf(dir)
  const found = modes.flatMap((mode) => snapshots(files, mode)[0] ?? [])
  return Promise.all(
    found.map(async ({ mode, version, writtenAt, file }) => {
      const packed = await readFile(join(dir, file))
      createLearner({}, unpack(packed).learned)
      return { mode, version, at: writtenAt, packed }
    }),
  )
}

/**
 * `dir`: the folder of the snapshots. `validate` throws if a model cannot be restored from the bytes.
 *
 * @param dir the folder of the snapshots; it need not exist yet
 * @param validate throws if a model cannot be restored from the bytes
 */
export function snapshotCatalog(
  dir: string,
  validate: (learned: Uint8Array) => unknown = (learned) => createLearner({}, learned),
) {
  async function read(mode: Mode, snapshot: string, file: string): Promise<LoadedSnapshot> {
    try {
      const base = await readFile(join(dir, file))
      validate(unpack(base).learned)
      return { mode, snapshot, base }
    } catch (cause) {
      throw new SnapshotCatalogError('damaged', `${snapshot}: ${(cause as Error).message}`, {
        cause,
      })
    }
  }

  return {
    /** Newest first within a mode. */
    async list(): Promise<SnapshotRow[]> {
      const files = await filesOf(dir)
      const rows: SnapshotRow[] = []
      for (const listed of modes)
        for (const [place, { id, mode, file, writtenAt }] of snapshots(files, listed).entries()) {
          const { size } = await stat(join(dir, file))
          rows.push({
            id,
            mode,
            at: new Date(writtenAt).toISOString(),
            bytes: size,
            newest: place === 0,
          })
        }
      return rows
    },
    /** One snapshot by id, or, without an id, the one before the newest of each mode. Throws `SnapshotCatalogError`. */
    async loadSnapshots(id?: string): Promise<LoadedSnapshot[]> {
      const files = await filesOf(dir)
      // Zeros before the version, as in the name of the file, are accepted.
      const wanted = id?.replace(/-0*(?=\d)/, '-')
      const found = modes.flatMap((mode) => {
        const list = snapshots(files, mode)
        return (id === undefined ? list[1] : list.find((row) => row.id === wanted)) ?? []
      })
      if (found.length === 0)
        throw new SnapshotCatalogError(
          'absent',
          id === undefined ? 'there is no earlier snapshot' : `there is no snapshot ${id}`,
        )
      return Promise.all(found.map(({ mode, id, file }) => read(mode, id, file)))
    },
  }
}
