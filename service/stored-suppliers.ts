/** The suppliers of the store on this node: read, checked and merged with those of the file (CONTRACT 14). */
import type { Store } from '../admin/store/index.ts'
import { type Block, readBlocksAfter, type StoredBlock } from '../admin/store/supplier-blocks.ts'
import type { Log } from '../opd/base/log.ts'
import { oneAtATime } from '../opd/base/one-at-a-time.ts'
import { createSlices } from '../opd/base/slices.ts'
import { areUnchanged, type FileVersions } from './config/files.ts'
import type { SupplierConfig } from './config/schema.ts'
import { checkBlock, type ReferenceRules } from './config/supplier-block.ts'

/** Counts for the metrics. */
export interface StoredSupplierCounts {
  /** Suppliers of the API that this node serves. */
  used: number
  /** Ids that the file and the API both name: the file wins. */
  conflicts: number
  /** Blocks that this node cannot use, for example because a file that they name is missing here. */
  refused: number
}

/** A block that names files, or needs `proxy.tls.clientCa`. */
interface Referring {
  block: Block
  /** As they were at the last check. */
  files: FileVersions
  certifies: boolean
}

/** The suppliers of the API, as far as this node can use them. */
export class StoredSuppliers {
  readonly #store: Store
  readonly #references: ReferenceRules
  readonly #log: Log
  /** The newest revision that was read. */
  #newest = 0
  readonly #usable = new Map<string, SupplierConfig>()
  readonly #refused = new Set<string>()
  /** Blocks that are checked again when what they refer to changes. */
  readonly #referring = new Map<string, Referring>()
  #conflicts: readonly string[] = []
  #used = 0

  constructor(store: Store, references: ReferenceRules, log: Log) {
    this.#store = store
    this.#references = references
    this.#log = log
  }

  /** Reads what has changed; returns whether anything has. One call at a time. */
  readonly read = oneAtATime(async (): Promise<boolean> => {
    const rows = await readBlocksAfter(this.#store.db, this.#newest)
    const slices = createSlices()
    for (const row of rows) {
      this.#take(row)
      await slices.next()
    }
    this.#newest = rows.reduce((newest, { n }) => Math.max(newest, n), this.#newest)
    return rows.length > 0
  })

  /** Checks the suppliers again whose files, or `proxy.tls.clientCa`, have changed. */
  readonly recheck = oneAtATime(async (): Promise<void> => {
    const slices = createSlices()
    for (const [id, referring] of [...this.#referring]) {
      await slices.next()
      // Unless its block has changed meanwhile.
      if (this.#referring.get(id) !== referring) continue
      const { block, files, certifies } = referring
      const isSame = certifies === this.#references.certifiesCallers() && areUnchanged(files)
      if (!isSame) this.#check(id, block)
    }
  })

  /** The files that suppliers of the store name, for a watcher. */
  files(): FileVersions {
    return new Map([...this.#referring.values()].flatMap(({ files }) => [...files]))
  }

  #take({ id, block }: StoredBlock): void {
    if (block !== null) return this.#check(id, block)
    this.#usable.delete(id)
    this.#refused.delete(id)
    this.#referring.delete(id)
  }

  /** A block that cannot be used changes nothing: the supplier stays as it was on this node. */
  #check(id: string, block: Block): void {
    const { supplier, faults, files } = checkBlock(block, this.#references)
    const { subjects } = (block['callers'] ?? {}) as { subjects?: unknown }
    const certifies = this.#references.certifiesCallers()
    if (files.size > 0 || subjects !== undefined)
      this.#referring.set(id, { block, files, certifies })
    else this.#referring.delete(id)
    if (supplier !== null && faults.length === 0) {
      this.#usable.set(id, supplier)
      this.#refused.delete(id)
      return
    }
    this.#refused.add(id)
    for (const { path, found, allowed } of faults)
      this.#log.error(
        { supplier: id, path },
        `a supplier of the API cannot be used on this node, it stays as it was: ${path}: found ${found}, allowed: ${allowed}`,
      )
  }

  /**
   * The suppliers of the file and of the API.
   *
   * @param file those of the configuration file, which are used if the API has the same id; each such id is logged once
   */
  mergedWith(file: readonly SupplierConfig[]): SupplierConfig[] {
    const ids = new Set(file.map(({ id }) => id))
    const conflicts = [...this.#usable.keys()].filter((id) => ids.has(id))
    for (const supplier of conflicts)
      if (!this.#conflicts.includes(supplier))
        this.#log.warn(
          { supplier },
          'the file and the API both have this supplier: the file is used',
        )
    this.#conflicts = conflicts
    const stored = [...this.#usable].filter(([id]) => !ids.has(id)).map(([, supplier]) => supplier)
    this.#used = stored.length
    return [...file, ...stored]
  }

  /** Whether a supplier in use comes from the store. */
  includes(supplier: SupplierConfig): boolean {
    return this.#usable.get(supplier.id) === supplier
  }

  counts(): StoredSupplierCounts {
    return { used: this.#used, conflicts: this.#conflicts.length, refused: this.#refused.size }
  }
}
