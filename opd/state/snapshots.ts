/**
 * Snapshots on disk: `revenue-00000012-1700000000000.bin.gz` (mode, version, time). A snapshot contains a version vector of
 * merged deltas before the bytes of the learner, so that after a restart each delta is merged once.
 */
import { readdirSync, rmSync } from 'node:fs'
import { open, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { createGzip, gunzip, gunzipSync } from 'node:zlib'
import { beginsAsOtherVersion, SnapshotError } from '../learner/snapshot.ts'
import type { Mode } from '../shared/arms.ts'
import type { VersionVectorRows } from './envelope.ts'

export interface SnapshotMeta {
  epoch: number
  seen: VersionVectorRows
  /** Position in the stream of deltas. */
  place: string
  /** false: without the settled rows of other nodes. */
  isWhole: boolean
}

export interface SnapshotHead {
  meta: SnapshotMeta
  /** The envelopes that were not sent yet. The model includes them. */
  unsent: Uint8Array[]
}

type UnpackedSnapshot = SnapshotHead & { learned: Uint8Array }

const gunzipLater = promisify<Uint8Array, { maxOutputLength: number }, Buffer>(gunzip)

interface SnapshotFile {
  /** `revenue-12` */
  id: string
  mode: Mode
  file: string
  version: number
  /** Milliseconds since the epoch. */
  writtenAt: number
}

const name = /^(revenue|margin)-(\d{8})-(\d{13})\.bin\.gz$/
const magic = 0x62774531
const headBytes = 8
/** Bound of a decompressed snapshot, bytes. */
export const maxBytes = 64 * 1024 * 1024
const hour = 3_600_000
const keptHours = 48
const keptDays = 14
const lastKept = 3

export const snapshotName = (mode: Mode, version: number, writtenAt: number) =>
  `${mode}-${String(version).padStart(8, '0')}-${String(writtenAt).padStart(13, '0')}.bin.gz`

/** Snapshots of a mode, newest first. */
export function snapshots(files: readonly string[], mode: Mode): SnapshotFile[] {
  return files
    .flatMap((file) => {
      const match = name.exec(file)
      if (match?.[1] !== mode) return []
      const [version, writtenAt] = [Number(match[2]), Number(match[3])]
      return { id: `${mode}-${version}`, mode, file, version, writtenAt }
    })
    .sort((one, other) => other.version - one.version)
}

/** Snapshots to delete. Kept are the newest of each of the last 48 hours and 14 days, and the last three. */
export function outdated<T extends { writtenAt: number }>(list: readonly T[], now: number): T[] {
  const kept = new Set<string>()
  return list.filter(({ writtenAt }, place) => {
    const age = now - writtenAt
    const hours = age < keptHours * hour ? `h${Math.floor(writtenAt / hour)}` : null
    const days = age < keptDays * 24 * hour ? `d${Math.floor(writtenAt / (24 * hour))}` : null
    const isKept =
      [hours, days].some((slot) => slot !== null && !kept.has(slot)) || place < lastKept
    for (const slot of [hours, days]) if (slot !== null) kept.add(slot)
    return !isKept
  })
}

/** `learned`: pieces of the bytes of the learner. Compresses off the event loop. */
export async function pack(
  { meta, unsent }: SnapshotHead,
  learned: readonly Uint8Array[],
): Promise<Buffer> {
  const text = Buffer.from(JSON.stringify({ ...meta, unsent: unsent.map(({ length }) => length) }))
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(magic, 0)
  head.writeUInt32BE(text.length, 4)
  return compress([head, text, ...unsent, ...learned])
}

/** In pieces, which saves a copy of 4 MB on the event loop. */
export const compress = (pieces: readonly Uint8Array[]): Promise<Buffer> =>
  buffer(Readable.from(pieces, { objectMode: false }).pipe(createGzip({ level: 1 })))

/** Throws if the bytes are damaged or of another version. The learner validates its own part. */
export const unpack = (packed: Uint8Array): UnpackedSnapshot =>
  partsOf(gunzipSync(packed, { maxOutputLength: maxBytes }))

/** The same, decompressed off the event loop. */
export const unpackLater = async (packed: Uint8Array): Promise<UnpackedSnapshot> =>
  partsOf(await gunzipLater(packed, { maxOutputLength: maxBytes }))

function partsOf(bytes: Buffer): UnpackedSnapshot {
  if (beginsAsOtherVersion(magic, bytes))
    throw new SnapshotError('a snapshot is of another version', true)
  if (bytes.length < headBytes || bytes.readUInt32BE(0) !== magic)
    throw new SnapshotError('not a snapshot')
  let offset = headBytes + bytes.readUInt32BE(4)
  const { unsent: lengths, ...meta } = JSON.parse(
    bytes.toString('utf8', headBytes, offset),
  ) as SnapshotMeta & { unsent: number[] }
  if (!Number.isSafeInteger(meta.epoch) || !Array.isArray(meta.seen) || !Array.isArray(lengths))
    throw new Error('the metadata of the snapshot is invalid')
  const unsent = lengths.map((length) => {
    offset += length
    return bytes.subarray(offset - length, offset)
  })
  const { buffer, byteOffset, length } = bytes.subarray(offset)
  return { meta, unsent, learned: new Uint8Array(buffer, byteOffset, length) }
}

/**
 * Writes a file atomically and syncs it.
 *
 * @param file its name in the folder, which must exist
 * @throws what the file system reports; the file is as it was before
 */
export async function writeDurably(dir: string, file: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(dir, `.${file}.tmp`)
  const handle = await open(temporary, 'w', 0o600)
  try {
    await handle.writeFile(bytes)
    await handle.sync()
    await rename(temporary, join(dir, file))
  } catch (error) {
    // Free the space of the incomplete file.
    await unlink(temporary)
    throw error
  } finally {
    await handle.close()
  }
}

/** Removes incomplete files that a crash left. */
export function removeIncomplete(dir: string): void {
  for (const file of readdirSync(dir)) if (/^\..*\.tmp$/.test(file)) rmSync(join(dir, file))
}
