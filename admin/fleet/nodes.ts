/** The figures of all nodes: each node publishes its own in the store. A node on SQLite is alone and writes nothing. */
import { setImmediate as yieldToLoop } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import type { Store } from '../store/index.ts'
import type { Tables } from '../store/tables.ts'
import type { NodeFigures, SupplierFigures } from './figures.ts'

/** Milliseconds between two publications of a node. */
const publishInterval = 10_000
/** Milliseconds after which a node that has not published is left out, and after which its rows are deleted. */
const nodeTimeout = 35_000
const rowLife = 3_600_000
/** Milliseconds for which rows that were read are used again. */
const readInterval = 2000
/** Suppliers of one row: its text stays below 100 KB, so that it takes a millisecond of the event loop. */
const partSize = 200

interface PublisherDeps {
  store: Pick<Store, 'db' | 'postgres'>
  node: string
  /** `publishedLines` of this node. */
  lines: () => Promise<string>
  /** Milliseconds of the clock that the nodes share. */
  now: () => number
  log: Log
}

/** What the other nodes have published. */
export class OtherNodes {
  private readonly deps: { db: Kysely<Tables>; node: string; now: () => number }
  private readAt = Number.NEGATIVE_INFINITY
  private latest: NodeFigures[] = []

  /** `node`: this one. `now`: milliseconds of the clock that the nodes share. */
  constructor(deps: OtherNodes['deps']) {
    this.deps = deps
  }

  /** Figures are up to 12 seconds old. */
  async read(): Promise<readonly NodeFigures[]> {
    await this.update()
    return this.latest
  }

  private readonly update = oneAtATime(async () => {
    const { db, node: self, now } = this.deps
    if (now() - this.readAt < readInterval) return
    const rows = await db
      .selectFrom('node_figures')
      .select(['node', 'figures'])
      .where('node', '!=', self)
      .where('at', '>', now() - nodeTimeout)
      .orderBy('node')
      .execute()
    const byNode = new Map<string, NodeFigures>()
    for (const { node, figures } of rows) {
      const part = JSON.parse(figures) as NodeFigures
      const known = byNode.get(node)
      if (known === undefined) byNode.set(node, part)
      else Object.assign(known.suppliers, part.suppliers satisfies Record<string, SupplierFigures>)
      await yieldToLoop()
    }
    this.latest = [...byNode.values()]
    this.readAt = now()
  })
}

/**
 * The figures of a node as texts of their rows, one a line.
 *
 * @param figures of all suppliers of the node
 */
export function publishedLines({ suppliers, ...node }: NodeFigures): string {
  const all = Object.entries(suppliers)
  const parts = Math.max(1, Math.ceil(all.length / partSize))
  return Array.from({ length: parts }, (_, part) => {
    const slice = Object.fromEntries(all.slice(part * partSize, (part + 1) * partSize))
    return JSON.stringify({ ...node, suppliers: slice })
  }).join('\n')
}

/** Publishes the figures of this node every 10 s. A node on SQLite is alone and writes nothing. */
export class Publisher {
  private readonly deps: PublisherDeps
  private readonly timer: NodeJS.Timeout

  constructor(deps: PublisherDeps) {
    this.deps = deps
    this.timer = setInterval(() => void this.publish(), publishInterval).unref()
  }

  private readonly publish = oneAtATime(async () => {
    const { store, log } = this.deps
    if (!store.postgres) return
    await this.write().catch((error: Error) =>
      log.warn({ err: error.message }, 'the figures of this node could not be published'),
    )
  })

  private async write(): Promise<void> {
    const { store, node, lines, now } = this.deps
    const { db } = store
    const parts = (await lines()).split('\n')
    for (const [part, figures] of parts.entries()) {
      const row = { at: now(), figures }
      await db
        .insertInto('node_figures')
        .values({ node, part, ...row })
        .onConflict((conflict) => conflict.columns(['node', 'part']).doUpdateSet(row))
        .execute()
      await yieldToLoop()
    }
    const stale = now() - rowLife
    await db
      .deleteFrom('node_figures')
      .where((row) =>
        row.or([
          row('at', '<', stale),
          row.and([row('node', '=', node), row('part', '>=', parts.length)]),
        ]),
      )
      .execute()
  }

  /** Others do not count the node any more. */
  async close(): Promise<void> {
    clearInterval(this.timer)
    const { store, node, log } = this.deps
    if (!store.postgres) return
    await store.db
      .deleteFrom('node_figures')
      .where('node', '=', node)
      .execute()
      .catch((error: Error) =>
        log.warn(
          { err: error.message },
          'the figures of this node were not removed; they count for 35 s more',
        ),
      )
  }
}
