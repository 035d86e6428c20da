/** Suppliers of the API: their blocks, and every version that a block has had (CONTRACT 14). */
import { type Kysely, sql, type Transaction } from 'kysely'
import { createSlices } from '../../opd/base/slices.ts'
import { type Author, auditAll } from './audit.ts'
import type { Store } from './index.ts'
import type { Tables } from './tables.ts'

/** A supplier with the keys of the configuration file, as the client sent it. */
export type Block = Readonly<Record<string, unknown>>

export interface StoredBlock {
  id: string
  /** The account that the id belongs to, also after a deletion; null: none. */
  account: string | null
  version: number
  /** The revision of the store at the last change. */
  n: number
  /** null: the supplier is deleted. */
  block: Block | null
}

export const blockActions = [
  'supplier_create',
  'supplier_update',
  'supplier_delete',
  'supplier_revert',
] as const
export type BlockAction = (typeof blockActions)[number]

export interface BlockVersion {
  version: number
  at: number
  who: string
  account: string
  action: BlockAction
  request_id: string
  block: Block | null
}

/** A change that was decided, and is not written yet. */
export interface BlockChange {
  id: string
  action: BlockAction
  block: Block | null
  /** Without those parts of the blocks that are equal. */
  before: unknown
  after: unknown
}

const parsed = (text: string | null): Block | null =>
  text === null ? null : (JSON.parse(text) as Block)

/** Rows of one statement. */
const chunk = 500

async function read(
  db: Kysely<Tables>,
  where: { ids?: readonly string[]; after?: number },
): Promise<StoredBlock[]> {
  let select = db.selectFrom('supplier_blocks').selectAll()
  if (where.ids !== undefined) select = select.where('supplier', 'in', where.ids)
  if (where.after !== undefined) select = select.where('n', '>', where.after)
  const rows = await select.orderBy('supplier').execute()
  const slices = createSlices()
  const blocks: StoredBlock[] = []
  for (const { supplier, block, ...row } of rows) {
    blocks.push({ ...row, id: supplier, block: parsed(block) })
    await slices.next()
  }
  return blocks
}

/**
 * Deleted ones too, in the order of ids.
 *
 * @param db of all nodes
 */
export const readBlocks = (db: Kysely<Tables>) => read(db, {})

/**
 * A supplier of the API, also a deleted one; null: there never was one.
 *
 * @param db of all nodes
 * @param id of the supplier
 */
export const readBlock = async (db: Kysely<Tables>, id: string): Promise<StoredBlock | null> =>
  (await read(db, { ids: [id] }))[0] ?? null

/**
 * What has changed after revision `n`, deletions included.
 *
 * @param n a revision, 0 or more; 0: all suppliers
 */
export const readBlocksAfter = (db: Kysely<Tables>, n: number) => read(db, { after: n })

/**
 * Versions of a supplier, newest first.
 *
 * @param range `before`: the version above the newest, exclusive; `limit`: most versions, 1 or more
 */
export async function readVersions(
  db: Kysely<Tables>,
  id: string,
  range: { before: number; limit: number },
): Promise<BlockVersion[]> {
  const rows = await db
    .selectFrom('supplier_versions')
    .selectAll()
    .where('supplier', '=', id)
    .where('version', '<', range.before)
    .orderBy('version', 'desc')
    .limit(range.limit)
    .execute()
  return rows.map(({ supplier: _id, block, action, ...row }) => ({
    ...row,
    action: action as BlockAction,
    block: parsed(block),
  }))
}

function accountOf(block: Block): string | null {
  const { account } = block
  return typeof account === 'string' ? account : null
}

async function write(
  trx: Transaction<Tables>,
  time: number,
  n: number,
  author: Author,
  current: ReadonlyMap<string, StoredBlock>,
  changes: readonly BlockChange[],
): Promise<StoredBlock[]> {
  const written = changes.map(({ id, block }): StoredBlock => {
    const before = current.get(id)
    const version = (before?.version ?? 0) + 1
    const account = block === null ? (before?.account ?? null) : accountOf(block)
    return { id, account, version, n, block }
  })
  for (let from = 0; from < written.length; from += chunk) {
    const rows = written.slice(from, from + chunk).map(({ id, block, ...row }) => ({
      ...row,
      supplier: id,
      block: block === null ? null : JSON.stringify(block),
    }))
    await trx
      .insertInto('supplier_blocks')
      .values(rows)
      .onConflict((conflict) =>
        conflict.column('supplier').doUpdateSet(({ ref }) => ({
          account: ref('excluded.account'),
          version: ref('excluded.version'),
          n: ref('excluded.n'),
          block: ref('excluded.block'),
        })),
      )
      .execute()
    await trx
      .insertInto('supplier_versions')
      .values(
        rows.map(({ supplier, version, block }, index) => ({
          supplier,
          version,
          at: time,
          who: author.who,
          account: author.account,
          action: changes[from + index]!.action,
          request_id: author.requestId,
          block,
        })),
      )
      .execute()
  }
  await auditAll(
    trx,
    time,
    changes.map(({ id, action, before, after }) => ({
      ...author,
      supplier: id,
      action,
      before,
      after,
    })),
  )
  return written
}

/**
 * Reads blocks, calls `plan` with them and writes the changes that it returns, in one transaction. Changes of suppliers
 * happen one after another, on all nodes. If `plan` throws, nothing is changed.
 *
 * @param ids the blocks that `plan` needs; null: all
 * @returns the blocks that were written, in the order of the changes
 */
export async function changeBlocks(
  store: Store,
  now: number,
  author: Author,
  ids: readonly string[] | null,
  plan: (
    current: ReadonlyMap<string, StoredBlock>,
    trx: Kysely<Tables>,
  ) => readonly BlockChange[] | Promise<readonly BlockChange[]>,
): Promise<StoredBlock[]> {
  return store.db.transaction().execute(async (trx) => {
    // The lock of this row: the next change waits here until the commit, so that `n` rises in the order of commits.
    const { rows } = await sql<{ n: number }>`update revision set n = n + 1 returning n`.execute(
      trx,
    )
    const blocks = await read(trx, ids === null ? {} : { ids })
    const current = new Map(blocks.map((block) => [block.id, block]))
    const changes = await plan(current, trx)
    if (changes.length === 0) return []
    const written = await write(trx, now, rows[0]!.n, author, current, changes)
    await store.bump(trx)
    return written
  })
}

/**
 * Suppliers of the API that are not deleted.
 *
 * @param db of all nodes
 */
export async function countBlocks(db: Kysely<Tables>): Promise<number> {
  const { n } = await db
    .selectFrom('supplier_blocks')
    .select(({ fn }) => fn.countAll<number>().as('n'))
    .where('block', 'is not', null)
    .executeTakeFirstOrThrow()
  return Number(n)
}
