/** What the calls and commands for suppliers of the API know of the configuration file. */
import type { BlockDeps } from '../admin/management/supplier-block-calls.ts'
import { Derived } from '../opd/base/derived.ts'
import { withoutSecrets } from './config/hidden.ts'
import { type Config, type SupplierConfig, supplierSchema } from './config/schema.ts'
import { blockFaults, type ReferenceRules } from './config/supplier-block.ts'
import { listedSuppliers } from './runtime-config.ts'

/** The configuration file as of the last reload. */
interface FileInUse {
  config: Config
  /** The file of `suppliersFrom` that has a supplier, by id. */
  fileOf: ReadonlyMap<string, string>
}

/**
 * @param path path of the configuration file; null: there is none
 * @param references where references of suppliers of the API lead
 */
export function supplierRules(
  inUse: () => FileInUse,
  path: string | null,
  references: ReferenceRules,
) {
  const config = () => inUse().config
  const byId = new Derived(
    ({ suppliers }: Config): ReadonlyMap<string, SupplierConfig> =>
      new Map(suppliers.map((supplier) => [supplier.id, supplier])),
  )
  const found = (id: string) => byId.valueFrom(config()).get(id)
  return {
    fileOf: (id) => inUse().fileOf.get(id) ?? path,
    inFile: (id) => found(id) !== undefined,
    fileCount: () => config().suppliers.length,
    fileSuppliers: () => listedSuppliers(config()),
    check: (block) => blockFaults(block, references),
    shown: (id) => withoutSecrets(found(id)!),
    schema: supplierSchema,
  } satisfies Omit<BlockDeps, 'store' | 'now' | 'applied'>
}
