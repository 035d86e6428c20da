/** Applies the suppliers of a new configuration one by one: each in every component at once, unchanged ones not at all. */

import type { Slices } from '../opd/shared/slices.ts'
import type { SupplierConfig } from './config/schema.ts'

export interface ActiveSupplier {
  supplier: SupplierConfig
  /** Its `opd` block has faults. Only a start accepts that. */
  invalid: boolean
}

export interface SupplierTargets {
  /** Synchronous in every component, so that no request sees the new supplier in one and the old in another. */
  set(supplier: SupplierConfig): void
  remove(id: string): void
}

export const activeSuppliers = (
  suppliers: readonly SupplierConfig[],
  invalidOpd: ReadonlySet<string>,
) =>
  new Map(
    suppliers.map((supplier): [string, ActiveSupplier] => [
      supplier.id,
      { supplier, invalid: invalidOpd.has(supplier.id) },
    ]),
  )

/** Makes `active` equal to `next`. A supplier that is the same object as before has not changed. */
export async function swapSuppliers(
  active: Map<string, ActiveSupplier>,
  next: readonly SupplierConfig[],
  targets: SupplierTargets,
  slices: Slices,
): Promise<void> {
  const removed = new Set(active.keys())
  for (const supplier of next) {
    const { id } = supplier
    removed.delete(id)
    const before = active.get(id)
    if (before?.supplier !== supplier || before.invalid) {
      targets.set(supplier)
      active.set(id, { supplier, invalid: false })
    }
    await slices.next()
  }
  for (const id of removed) {
    targets.remove(id)
    active.delete(id)
    await slices.next()
  }
}
