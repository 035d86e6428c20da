/** Takes in the suppliers of a configuration one by one: each as a whole, and none that reads as before. */

import type { Slices } from '../opd/shared/slices.ts'
import type { SupplierConfig } from './config/schema.ts'

export interface Taken {
  supplier: SupplierConfig
  /** Its `opd` block has faults; only at a start. */
  invalid: boolean
}

export interface SupplierParts {
  /** In every part before it returns: no request sees the news of one part without those of another. */
  set(supplier: SupplierConfig): void
  remove(id: string): void
}

export const takenOf = (suppliers: readonly SupplierConfig[], invalidOpd: ReadonlySet<string>) =>
  new Map(
    suppliers.map((supplier): [string, Taken] => [
      supplier.id,
      { supplier, invalid: invalidOpd.has(supplier.id) },
    ]),
  )

/** Brings `taken` to what `next` says; a supplier that is the same object as before has not changed. */
export async function swapSuppliers(
  taken: Map<string, Taken>,
  next: readonly SupplierConfig[],
  parts: SupplierParts,
  slices: Slices,
): Promise<void> {
  const gone = new Set(taken.keys())
  for (const supplier of next) {
    const { id } = supplier
    gone.delete(id)
    const before = taken.get(id)
    if (before?.supplier === supplier && !before.invalid) continue
    parts.set(supplier)
    taken.set(id, { supplier, invalid: false })
    await slices.next()
  }
  for (const id of gone) {
    parts.remove(id)
    taken.delete(id)
    await slices.next()
  }
}
