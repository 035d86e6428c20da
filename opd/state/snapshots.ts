/**
 * Snapshots on disk: `revenue-00000012-1700000000000.bin.gz`, mode, version and time. Inside, in front of the learner's
 * own bytes, stands how far the deltas of each node are in it, so that after a restart each counts once.
 */
import { readdirSync, rmSync } from 'node:fs'
import { open, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createGzip, gunzipSync } from 'node:zlib'
import type { Mode } from '../pricing/arms.ts'
import type { VersionVectorRows } from './envelope.ts'

export interface Meta {
  epoch: number
  seen: VersionVectorRows
  /** Where to read on in the stream of deltas. */
  place: string
}

/** What a snapshot holds: the model, and the envelopes that were not sent yet though they are in it. */
export interface Snapshot {
  meta: Meta
  unsent: Uint8Array[]
  learned: Uint8Array
}

export interface Listed {
  file: string
  version: number
  /** Milliseconds since the epoch. */
  at: number
}

const name = /^(revenue|margin)-(\d{8})-(\d{13})\.bin\.gz$/
const magic = 0x62774531
const headBytes = 8
/** A snapshot is never larger, decompressed. */
const largest = 64 * 1024 * 1024
const hour = 3_600_000
const keptHours = 48
const keptDays = 14
const lastKept = 3

export const snapshotName = (mode: Mode, version: number, at: number) =>
  `${mode}-${String(version).padStart(8, '0')}-${String(at).padStart(13, '0')}.bin.gz`

/** Snapshots of a mode, newest first. */
export function snapshots(files: readonly string[], mode: Mode): Listed[] {
  return files
    .flatMap((file) => {
      const match = name.exec(file)
      return match?.[1] === mode ? [{ file, version: Number(match[2]), at: Number(match[3]) }] : []
    })
    .sort((one, other) => other.version - one.version)
}

/** Which snapshots may go: the newest of each of 48 hours and 14 days stays, and the last three. */
export function outdated(list: readonly Listed[], now: number): Listed[] {
  const kept = new Set<string>()
  return list.filter(({ at }, place) => {
    const age = now - at
    const hours = age < keptHours * hour ? `h${Math.floor(at / hour)}` : null
    const days = age < keptDays * 24 * hour ? `d${Math.floor(at / (24 * hour))}` : null
    const stays = [hours, days].some((slot) => slot !== null && !kept.has(slot)) || place < lastKept
    for (const slot of [hours, days]) if (slot !== null) kept.add(slot)
    return !stays
  })
}

/** Compressed off the event loop: most weights are still 0. */
export async function pack({
  meta,
  unsent,
  learned,
}: Omit<Snapshot, 'learned'> & { learned: readonly Uint8Array[] }): Promise<Buffer> {
  const text = Buffer.from(JSON.stringify({ ...meta, unsent: unsent.map(({ length }) => length) }))
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(magic, 0)
  head.writeUInt32BE(text.length, 4)
  // Piece by piece: one copy of 4 MB less on the event loop.
  const pieces = Readable.from([head, text, ...unsent, ...learned], { objectMode: false })
  return buffer(pieces.pipe(createGzip({ level: 1 })))
}

/** Throws where the bytes are damaged; the learner checks its own part. */
export function unpack(packed: Uint8Array): Snapshot {
  const whole = gunzipSync(packed, { maxOutputLength: largest })
  if (whole.length < headBytes || whole.readUInt32BE(0) !== magic)
    throw new Error('no snapshot of this version')
  let at = headBytes + whole.readUInt32BE(4)
  const { unsent: lengths, ...meta } = JSON.parse(whole.toString('utf8', headBytes, at)) as Meta & {
    unsent: number[]
  }
  if (!Number.isSafeInteger(meta.epoch) || !Array.isArray(meta.seen) || !Array.isArray(lengths))
    throw new Error('a snapshot without its place')
  const unsent = lengths.map((length) => {
    at += length
    return whole.subarray(at - length, at)
  })
  // Bytes of its own, from 0 on: `slice` of a Buffer is a view, and arrays of floats want alignment.
  return { meta, unsent, learned: new Uint8Array(whole.subarray(at)) }
}

/** On disk, or not there at all: never half. */
export async function writeDurably(dir: string, file: string, bytes: Uint8Array): Promise<void> {
  const temporary = join(dir, `.${file}.tmp`)
  const handle = await open(temporary, 'w', 0o600)
  try {
    await handle.writeFile(bytes)
    await handle.sync()
    await rename(temporary, join(dir, file))
  } catch (error) {
    // A full disk is not made fuller by halves.
    await unlink(temporary)
    throw error
  } finally {
    await handle.close()
  }
}

/** Removes what a crash left half written. */
export function sweep(dir: string): void {
  for (const file of readdirSync(dir)) if (/^\..*\.tmp$/.test(file)) rmSync(join(dir, file))
}
