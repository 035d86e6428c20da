/**
 * The rules for suppliers of the API: who owns an id, what a change is based on, and what it changes (CONTRACT 14). Pure
 * functions of the stored blocks and the request; the calls of the API and `bidweir apply` share them.
 */
import { isDeepStrictEqual } from 'node:util'
import { createSlices } from '../../opd/base/slices.ts'
import { escapePart } from '../http/json-body.ts'
import { Problem, type ProblemFault } from '../http/problem.ts'
import type { Block, BlockAction, BlockChange, StoredBlock } from '../store/supplier-blocks.ts'

/** What is known of suppliers outside of the store. */
export interface BlockRules {
  /** The faults of a block in the words of `bidweir check`, with pointers into the block. */
  check(block: Block): ProblemFault[]
  /** Whether the configuration file names a supplier of this id. */
  inFile(id: string): boolean
  /** Suppliers of the configuration file. */
  fileCount(): number
  /** The path of the file that has the supplier; null: there is no file. */
  fileOf(id: string): string | null
}

/** Suppliers of file and API together: the limit of the file's list. */
export const maxSuppliers = 10_000

/** One value that differs. Without `before` it was added, without `after` removed. */
export interface Difference {
  /** JSON pointer into the supplier. */
  pointer: string
  before?: unknown
  after?: unknown
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === 'object' && !Array.isArray(value)

/** The values that differ. Lists are compared as a whole, and so are references to secrets. */
function differences(before: unknown, after: unknown, pointer = ''): Difference[] {
  if (isDeepStrictEqual(before, after)) return []
  if (isObject(before) && isObject(after) && !('file' in before) && !('file' in after))
    return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((key) =>
      differences(before[key], after[key], `${pointer}/${escapePart(key)}`),
    )
  return [
    {
      pointer,
      ...(before === undefined ? {} : { before }),
      ...(after === undefined ? {} : { after }),
    },
  ]
}

/** null: there is no supplier. One that is added or deleted is one difference, of the whole. */
export const blockDifferences = (before: Block | null, after: Block | null): Difference[] =>
  differences(before ?? undefined, after ?? undefined)

/** The two values without the keys whose values are equal: what the audit trail keeps. */
function differingParts(before: unknown, after: unknown): [unknown, unknown] {
  if (!isObject(before) || !isObject(after)) return [before, after]
  const parts: [Record<string, unknown>, Record<string, unknown>] = [{}, {}]
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    if (isDeepStrictEqual(before[key], after[key])) continue
    const [one, other] = differingParts(before[key], after[key])
    if (one !== undefined) parts[0][key] = one
    if (other !== undefined) parts[1][key] = other
  }
  return parts
}

/** null: nothing changes. */
export function changeOf(
  id: string,
  action: BlockAction,
  from: Block | null,
  block: Block | null,
): BlockChange | null {
  if (isDeepStrictEqual(from, block)) return null
  const [before, after] = differingParts(from, block)
  return { id, action, block, before, after }
}

/** RFC 7396: null removes a key, an object is merged, any other value replaces. */
export function mergePatch(value: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map(isObject(value) ? Object.entries(value) : [])
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) merged.delete(key)
    else merged.set(key, mergePatch(merged.get(key), value))
  }
  // `__proto__` becomes a key like others, which the schema refuses.
  return Object.fromEntries(merged)
}

export const etagOf = ({ version }: Pick<StoredBlock, 'version'>) => `"${version}"`

/**
 * The number of the last change of any supplier of the API; 0: there was none.
 *
 * @param rows of all suppliers of the API, deleted ones included
 */
export const revisionOf = (rows: Iterable<StoredBlock>): number => {
  let newest = 0
  for (const { n } of rows) newest = Math.max(newest, n)
  return newest
}

export const accountOf = ({ account }: Block): string | null =>
  typeof account === 'string' ? account : null

export const unknownSupplier = () => new Problem('unknown_supplier')

const fileFault = (rules: BlockRules, id: string) =>
  `${id} is a supplier of ${rules.fileOf(id) ?? 'the built-in configuration'}: change it there`

/** Refuses a supplier of the file, which is read-only here. */
export function refuseFile(rules: BlockRules, id: string): void {
  if (rules.inFile(id))
    throw new Problem('file_supplier', {
      title: fileFault(rules, id),
      faults: [{ pointer: '/id', detail: fileFault(rules, id) }],
    })
}

export function refuseFaults(faults: readonly ProblemFault[]): void {
  if (faults.length > 0) throw new Problem('invalid_supplier', { faults })
}

/** An id that was deleted can be used again only by its account. */
function reserved(row: StoredBlock | undefined, block: Block): ProblemFault[] {
  if (row === undefined || row.block !== null || row.account === accountOf(block)) return []
  const owner = row.account === null ? 'no account' : `account ${row.account}`
  const detail = `${row.id} is a deleted supplier of ${owner}: the id can be used again only there`
  return [{ pointer: '/account', detail }]
}

export function refuseReserved(row: StoredBlock | undefined, block: Block): void {
  const conflicts = reserved(row, block)
  if (conflicts.length > 0) throw new Problem('reserved', { faults: conflicts })
}

export function refuseExcess(rules: BlockRules, stored: number): void {
  if (stored + rules.fileCount() > maxSuppliers)
    throw new Problem('too_many', { title: `There can be at most ${maxSuppliers} suppliers` })
}

/** What a list changes. */
export interface ListPlan {
  changes: BlockChange[]
  created: string[]
  changed: string[]
  deleted: string[]
  unchanged: string[]
  /** By id of a changed supplier. */
  difference: Record<string, Difference[]>
}

/**
 * Checks a list as a whole.
 *
 * @param rules how one block is checked, and which ids the file has
 * @param list blocks, not checked yet. A long list is checked in slices
 * @throws Problem with every fault, with pointers into the list
 */
export async function listFaults(rules: BlockRules, list: readonly unknown[]): Promise<void> {
  const faults: ProblemFault[] = []
  const conflicts: ProblemFault[] = []
  const seen = new Set<unknown>()
  const slices = createSlices()
  for (const [index, block] of list.entries()) {
    await slices.next()
    const place = `/${index}`
    if (!isObject(block)) {
      faults.push({ pointer: place, detail: 'must be a JSON object' })
      continue
    }
    const { id } = block
    if (typeof id === 'string' && rules.inFile(id))
      conflicts.push({ pointer: `${place}/id`, detail: fileFault(rules, id) })
    if (seen.has(id) && id !== undefined)
      faults.push({
        pointer: `${place}/id`,
        detail: `found ${JSON.stringify(id)}, which is used above, allowed: an id of its own`,
      })
    seen.add(id)
    for (const { pointer, detail } of rules.check(block))
      faults.push({ pointer: place + pointer, detail })
  }
  if (conflicts.length > 0)
    throw new Problem('file_supplier', {
      title: 'The file has suppliers of the list',
      faults: conflicts,
    })
  refuseFaults(faults)
}

/**
 * What a list changes. Suppliers of the API that it lacks are deleted.
 *
 * @param list it has passed `listFaults`
 * @throws Problem `reserved` if an id belongs to another account
 */
export async function planList(
  rules: BlockRules,
  list: readonly Block[],
  current: ReadonlyMap<string, StoredBlock>,
): Promise<ListPlan> {
  const plan: ListPlan = {
    ...{ changes: [], created: [], changed: [], deleted: [], unchanged: [] },
    difference: {},
  }
  const conflicts: ProblemFault[] = []
  const slices = createSlices()
  const kept = new Set<string>()
  for (const [index, block] of list.entries()) {
    await slices.next()
    const id = block['id'] as string
    kept.add(id)
    const row = current.get(id)
    for (const { pointer, detail } of reserved(row, block))
      conflicts.push({ pointer: `/${index}${pointer}`, detail })
    const from = row?.block ?? null
    const change = changeOf(id, from === null ? 'supplier_create' : 'supplier_update', from, block)
    if (change === null) plan.unchanged.push(id)
    else {
      plan.changes.push(change)
      if (from === null) plan.created.push(id)
      else {
        plan.changed.push(id)
        plan.difference[id] = differences(from, block)
      }
    }
  }
  if (conflicts.length > 0)
    throw new Problem('reserved', { title: 'An id belongs to another account', faults: conflicts })
  refuseExcess(rules, list.length)
  for (const { id, block } of current.values()) {
    if (block === null || kept.has(id)) continue
    plan.deleted.push(id)
    plan.changes.push(changeOf(id, 'supplier_delete', block, null)!)
  }
  return plan
}
