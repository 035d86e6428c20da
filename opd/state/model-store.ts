/** The models of one node: the learner of each mode with what of other nodes is in it, on disk and back. */
import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import type { Learner } from '../learner.ts'
import { type Mode, modes } from '../pricing/arms.ts'
import { decodeEnvelope, type Envelope, encodeEnvelope, VersionVector } from './envelope.ts'
import { ManagedLearner } from './managed-learner.ts'
import {
  type Meta,
  outdated,
  pack,
  snapshotName,
  snapshots,
  unpack,
  writeDurably,
} from './snapshots.ts'

export interface ModelsLog {
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface ModelStoreOptions {
  /** Where snapshots live; null: nowhere. */
  dir: string | null
  /** `carries` false: without the exposures that wait in it. */
  create: (learned?: Uint8Array, carries?: boolean) => Learner
  now: () => number
  log: ModelsLog
  /** The last life ended in order: its newest snapshot is all that there was. */
  clean: boolean
}

/** One mode. */
export interface Kept {
  learner: ManagedLearner
  version: number
  /** When its last snapshot was made or restored; null: never. */
  at: number | null
  epoch: number
  seen: VersionVector
  /** Where to read on in the stream of deltas. */
  place: string
  /** Of the last delta that was drawn. */
  sequence: number
  outbox: Envelope[]
}

/** Deltas that wait to be sent; beyond, the oldest is dropped (counted): it was taught here. */
const maxOutbox = 100
/** A delta without a row: head and checksum. */
const emptyDelta = 16

export class ModelStore {
  /** One life of one process. */
  readonly node = randomUUID()
  readonly counts = { refused: 0, writes: 0, dropped: 0 }
  /** Whether deltas are drawn: somebody sends them. */
  shares = false
  private readonly options: ModelStoreOptions
  private readonly kept: Readonly<Record<Mode, Kept>>

  constructor(options: ModelStoreOptions) {
    this.options = options
    this.kept = { revenue: this.restored('revenue'), margin: this.restored('margin') }
  }

  of(mode: Mode): Kept {
    return this.kept[mode]
  }

  private restored(mode: Mode): Kept {
    const { dir, log, create, clean } = this.options
    const list = snapshots(dir === null ? [] : readdirSync(dir), mode)
    for (const [place, { file, version, at }] of list.entries()) {
      try {
        const { meta, unsent, learned } = unpack(readFileSync(join(dir!, file)))
        // After a crash wins of what waits in it came to a life that is lost: it would all be taught as losses.
        const learner = new ManagedLearner(create(learned, clean && place === 0), meta.epoch)
        const outbox = unsent.flatMap((bytes) => decodeEnvelope(Buffer.from(bytes)) ?? [])
        log.info({ mode, file }, 'model restored')
        return { ...fresh(learner, meta), outbox, version, at }
      } catch (error) {
        this.counts.refused++
        log.error(
          { mode, file, err: (error as Error).message },
          'model snapshot refused, the one before it is tried',
        )
      }
    }
    const meta = { epoch: 0, seen: [], place: '0' }
    return fresh(new ManagedLearner(create(), meta.epoch), meta)
  }

  /** What is learned and not sent yet goes into the outbox: a snapshot and the deltas after it never overlap. */
  draw(mode: Mode): Envelope[] {
    const kept = this.kept[mode]
    if (!this.shares || kept.learner.isFrozen) return kept.outbox
    const delta = kept.learner.delta()
    if (delta.length <= emptyDelta) return kept.outbox
    kept.sequence++
    kept.seen.add(this.node, kept.sequence)
    kept.outbox.push({ node: this.node, epoch: kept.epoch, sequence: kept.sequence, delta })
    if (kept.outbox.length > maxOutbox) {
      kept.outbox.shift()
      this.counts.dropped++
    }
    return kept.outbox
  }

  /** `ahead`: of an epoch that this node has yet to hear of. */
  accept(mode: Mode, envelope: Envelope): 'merged' | 'seen' | 'old' | 'ahead' {
    const kept = this.kept[mode]
    if (envelope.epoch > kept.epoch) return 'ahead'
    if (envelope.epoch < kept.epoch) return 'old'
    if (kept.seen.has(envelope.node, envelope.sequence)) return 'seen'
    kept.learner.merge(envelope.delta)
    kept.seen.add(envelope.node, envelope.sequence)
    return 'merged'
  }

  /** The model as it stands, with the deltas that are in it. */
  async packed(mode: Mode): Promise<Buffer> {
    const kept = this.kept[mode]
    let meta: Meta = { epoch: kept.epoch, seen: [], place: kept.place }
    let unsent: Uint8Array[] = []
    // What stands beside the model is of the same moment; between slices bids have their turn.
    const slices = kept.learner.snapshotting(() => {
      this.draw(mode)
      meta = { epoch: kept.epoch, seen: kept.seen.rows(), place: kept.place }
      unsent = kept.outbox.map(encodeEnvelope)
    })
    let slice = slices.next()
    for (; !slice.done; slice = slices.next()) await new Promise(setImmediate)
    return pack({ meta, unsent, learned: slice.value })
  }

  /** The model becomes the one of `base`; throws, and nothing is changed, where that is damaged. */
  begin(mode: Mode, epoch: number, base: Uint8Array): void {
    const kept = this.kept[mode]
    const { meta, learned } = unpack(base)
    const seen = new VersionVector(meta.seen)
    // Its exposures wait for wins that are of another epoch, or another node's to teach.
    kept.learner.replace(this.options.create(learned, false), epoch)
    Object.assign(kept, { epoch, seen, outbox: [] })
  }

  async save(mode: Mode): Promise<void> {
    const { dir, now } = this.options
    if (dir === null) return
    const kept = this.kept[mode]
    const at = now()
    const version = kept.version + 1
    await writeDurably(dir, snapshotName(mode, version, at), await this.packed(mode))
    kept.version = version
    kept.at = at
    for (const { file } of outdated(snapshots(await readdir(dir), mode), at))
      await unlink(join(dir, file))
  }

  /** What stands still is not written again. false: something could not be written. */
  async saveAll(): Promise<boolean> {
    let saved = true
    for (const mode of modes)
      try {
        const { learner, at } = this.kept[mode]
        if (!learner.isFrozen || at === null) await this.save(mode)
      } catch (error) {
        saved = false
        this.counts.writes++
        this.options.log.error(
          { mode, err: (error as Error).message },
          'model snapshot not written, learning goes on',
        )
      }
    return saved
  }
}

const fresh = (learner: ManagedLearner, { epoch, seen, place }: Meta): Kept => ({
  learner,
  version: 0,
  at: null,
  epoch,
  seen: new VersionVector(seen),
  place,
  sequence: 0,
  outbox: [],
})
