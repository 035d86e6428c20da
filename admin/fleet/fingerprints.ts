/**
 * What must be equal on all nodes of a database: each node publishes fingerprints of it, and looks whether its own differ from
 * those of most nodes. A node on SQLite is alone and publishes nothing.
 */
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import type { Store } from '../store/index.ts'

/** What is compared. */
export const fingerprintParts = ['context_keys', 'configuration'] as const
type FingerprintPart = (typeof fingerprintParts)[number]

/** Check values by the name of what they stand for, and one of all of them. They reveal nothing of a key. */
export interface Fingerprint {
  digest: string
  values: Readonly<Record<string, string>>
}
export type Fingerprints = Readonly<Record<FingerprintPart, Fingerprint>>

/** This node and `other` have different values of these names; most nodes have those of `other`, or none has most. */
export interface Difference {
  part: FingerprintPart
  other: string
  names: string[]
}

/** Milliseconds between two publications of a node, and after which a node that has not published is left out. */
const publishInterval = 10_000
const nodeTimeout = 35_000
/** Milliseconds after which the row of a node that ended without removing it is deleted. */
const rowLife = 3_600_000

interface NodeRow {
  node: string
  digest: string
}

/**
 * The node that `self` differs from: of the largest group of nodes that have equal values, but others than `self`, the first by
 * name. null: there is none, or more nodes have the values of `self` than any others.
 */
function nodeToCompareWith(rows: readonly NodeRow[], self: NodeRow): string | null {
  const groups = new Map<string, string[]>()
  for (const { node, digest } of rows) {
    if (node === self.node) continue
    const group = groups.get(digest)
    if (group === undefined) groups.set(digest, [node])
    else group.push(node)
  }
  const equal = 1 + (groups.get(self.digest)?.length ?? 0)
  groups.delete(self.digest)
  const [largest = []] = [...groups.values()].sort((one, other) => other.length - one.length)
  return largest.length < equal ? null : largest[0]!
}

const namesThatDiffer = (one: Fingerprint, other: Fingerprint): string[] =>
  [...new Set([...Object.keys(one.values), ...Object.keys(other.values)])]
    .filter((name) => one.values[name] !== other.values[name])
    .sort()

interface NodeFingerprintsDeps {
  store: Pick<Store, 'db' | 'postgres'>
  node: string
  /** Of the configuration in use. */
  read: () => Promise<Fingerprints>
  now: () => number
  log: Log
}

/** Publishes fingerprints of what must be equal on all nodes, and compares them. */
export class NodeFingerprints {
  /** As of the last publication. */
  differences: readonly Difference[] = []
  private readonly deps: NodeFingerprintsDeps
  private readonly timer: NodeJS.Timeout
  /** Publishes the fingerprints of this node, and compares them with those of the others. */
  readonly publish = oneAtATime(() => this.exchange())

  constructor(deps: NodeFingerprintsDeps) {
    this.deps = deps
    this.timer = setInterval(() => void this.publish(), publishInterval).unref()
    void this.publish()
  }

  private async exchange(): Promise<void> {
    const { store, read, log } = this.deps
    if (!store.postgres) return
    try {
      const fingerprints = await read()
      await this.write(fingerprints)
      this.differences = await this.compare(fingerprints)
    } catch (error) {
      const err = (error as Error).message
      log.warn({ err }, 'the fingerprints of this node could not be compared')
    }
  }

  private async write(fingerprints: Fingerprints): Promise<void> {
    const { store, node, now } = this.deps
    const digests = {
      keys: fingerprints.context_keys.digest,
      configuration: fingerprints.configuration.digest,
    }
    const writtenAt = now()
    const { numUpdatedRows } = await store.db
      .updateTable('node_fingerprints')
      .set({ at: writtenAt })
      .where((row) => row.and({ node, ...digests }))
      .executeTakeFirst()
    // The details are written only if they have changed.
    if (numUpdatedRows === 0n) {
      const row = { at: writtenAt, ...digests, details: JSON.stringify(fingerprints) }
      await store.db
        .insertInto('node_fingerprints')
        .values({ node, ...row })
        .onConflict((conflict) => conflict.column('node').doUpdateSet(row))
        .execute()
    }
    await store.db
      .deleteFrom('node_fingerprints')
      .where('at', '<', writtenAt - rowLife)
      .execute()
  }

  private async compare(fingerprints: Fingerprints): Promise<Difference[]> {
    const { store, node, now } = this.deps
    const rows = await store.db
      .selectFrom('node_fingerprints')
      .select(['node', 'keys as context_keys', 'configuration'])
      .where('at', '>', now() - nodeTimeout)
      .orderBy('node')
      .execute()
    const differences: Difference[] = []
    for (const part of fingerprintParts) {
      const digests = rows.map((row) => ({ node: row.node, digest: row[part] }))
      const other = nodeToCompareWith(digests, { node, digest: fingerprints[part].digest })
      if (other === null) continue
      const row = await store.db
        .selectFrom('node_fingerprints')
        .select('details')
        .where('node', '=', other)
        .executeTakeFirst()
      if (row === undefined) continue
      const theirs = JSON.parse(row.details) as Fingerprints
      const names = namesThatDiffer(fingerprints[part], theirs[part])
      if (names.length > 0) differences.push({ part, other, names })
    }
    return differences
  }

  async close(): Promise<void> {
    const { store, node, log } = this.deps
    clearInterval(this.timer)
    if (!store.postgres) return
    await store.db
      .deleteFrom('node_fingerprints')
      .where('node', '=', node)
      .execute()
      .catch((error: Error) =>
        log.warn({ err: error.message }, 'the fingerprints of this node were not removed'),
      )
  }
}
