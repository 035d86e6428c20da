/**
 * Blocks of a supplier that most suppliers leave at their defaults. Equal ones are one object on the main thread: a reload
 * that changes 3,000 suppliers leaves half as many bytes for the garbage collector, which copies them in one turn.
 */
import type { SupplierConfig } from './schema.ts'

type Supplier = Pick<SupplierConfig, 'callers' | 'clearing' | 'opd'>

/** For each block, whether it is equal to that of the supplier before. */
export type EqualBlocks = readonly boolean[]

/** The blocks as JSON, to be compared with those of the next supplier. */
export const blocksOf = ({ callers, clearing, opd }: Supplier): readonly string[] =>
  [callers, clearing, opd?.exclude, opd?.caps].map((block) => JSON.stringify(block) ?? '')

export const equalBlocks = (one: readonly string[], other: readonly string[]): EqualBlocks =>
  one.map((block, at) => block === other[at])

/** Takes the equal blocks from the supplier before. */
export function shareBlocks(
  supplier: Supplier,
  before: Supplier,
  [callers, clearing, exclude, caps]: EqualBlocks,
): void {
  if (callers) supplier.callers = before.callers
  if (clearing) supplier.clearing = before.clearing
  if (supplier.opd === undefined || before.opd === undefined) return
  if (exclude) supplier.opd.exclude = before.opd.exclude
  if (caps) supplier.opd.caps = before.opd.caps
}
