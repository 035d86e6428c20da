/** What the calls and commands for suppliers of the API know of the configuration file. */
import type { BlockDeps } from '../admin/management/supplier-blocks.ts'
import { withoutSecrets } from './config/hidden.ts'
import { type Config, type SupplierConfig, supplierSchema } from './config/schema.ts'
import { blockFaults, type ReferenceRules } from './config/supplier-block.ts'
import { listedSuppliers } from './runtime-config.ts'

/**
 * @param config the configuration of the file, as of the last reload
 * @param file its path; null: there is none
 * @param references where references of suppliers of the API lead
 */
export function supplierRules(
  config: () => Config,
  file: string | null,
  references: ReferenceRules,
) {
  let indexed: Config | null = null
  let byId = new Map<string, SupplierConfig>()
  const found = (id: string): SupplierConfig | undefined => {
    const current = config()
    if (indexed !== current) {
      indexed = current
      byId = new Map(current.suppliers.map((supplier) => [supplier.id, supplier]))
    }
    return byId.get(id)
  }
  return {
    file,
    inFile: (id) => found(id) !== undefined,
    fileCount: () => config().suppliers.length,
    fileSuppliers: () => listedSuppliers(config()),
    check: (block) => blockFaults(block, references),
    shown: (id) => withoutSecrets(found(id)!),
    schema: supplierSchema,
  } satisfies Omit<BlockDeps, 'store' | 'now' | 'applied'>
}
