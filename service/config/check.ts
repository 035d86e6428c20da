/** Checks a configuration: every fault at once, with its line. Makes its paths absolute. */
import { dirname, join, resolve } from 'node:path'
import { crossFaults } from './cross-faults.ts'
import { type ConfigFault, faultsOf } from './faults.ts'
import type { FileVersions } from './files.ts'
import { type Config, configSchema, type ParsedConfig } from './schema.ts'
import { coerce, type Expansion, expand, type Path, pathText } from './values.ts'

export interface LoadedConfig {
  /** null if there is a fault outside of the suppliers' `opd` blocks. */
  config: Config | null
  faults: ConfigFault[]
  /** Suppliers whose `opd` block has faults: OPD is off for them (CONTRACT 2). */
  invalidOpd: Set<string>
  /** Every file that was read, the configuration first. A watcher compares them with the present ones. */
  files: FileVersions
  /** Those of them that belong to the node, not to a supplier. */
  nodeFiles: Set<string>
}

/**
 * Checks a configuration that is already a value, such as the default configuration. `base`: the folder of relative paths.
 * `before`: faults that were found while the file was parsed.
 */
export function check(
  raw: unknown,
  base: string,
  files: FileVersions = new Map(),
  lineOf: (path: Path) => number | null = () => null,
  before: readonly ConfigFault[] = [],
): LoadedConfig {
  const nodeFiles = new Set([...files.keys()])
  const expansion: Expansion = {
    ...{ files, nodeFiles, faults: [], external: new Map(), tooDeep: false },
  }
  const root = expand(raw, [], base, expansion)
  let parsed = configSchema.safeParse(root)
  // Values of environment variables and other files are text. If the schema expects another type, they are converted.
  if (!parsed.success && coerce(root, parsed.error.issues, expansion.external))
    parsed = configSchema.safeParse(root)
  const unset = new Set(expansion.faults.map((fault) => pathText(fault.path)))
  const faults = [...before]
  const { external } = expansion
  for (const { path, found, allowed } of [...expansion.faults, ...crossFaults(root, external)])
    faults.push({ path: pathText(path), line: lineOf(path), found, allowed })
  const invalidOpd = new Set<string>()
  if (!parsed.success) {
    const issues = parsed.error.issues.filter((issue) => !unset.has(pathText(issue.path)))
    for (const fault of faultsOf(issues, root, expansion.external, lineOf)) faults.push(fault)
  }
  const checked = (result: typeof parsed): LoadedConfig => {
    const config = result.success ? resolvePaths(result.data, base) : null
    return { config, faults, invalidOpd, files, nodeFiles }
  }
  if (faults.length === 0) return checked(parsed)
  const opdBlock = /^suppliers\[(\d+)\]\.opd(\.|$|\[)/
  if (!faults.every((fault) => opdBlock.test(fault.path)))
    return { config: null, faults, invalidOpd, files, nodeFiles }
  // All faults are in `opd` blocks: OPD is off for their suppliers, and the rest is valid without the blocks.
  const suppliers = (root as { suppliers: Record<string, unknown>[] }).suppliers
  for (const fault of faults) {
    const supplier = suppliers[Number(opdBlock.exec(fault.path)![1])]!
    invalidOpd.add(String(supplier['id']))
    delete supplier['opd']
  }
  return checked(configSchema.safeParse(root))
}

const sqlite = 'sqlite:'
const inMemory = 'sqlite::memory:'

/** Without `stateDir` the state is in the folder of the SQLite file, so that a backup of the folder has both. */
function chosenDir({ stateDir, store: { database } }: ParsedConfig): string {
  if (stateDir !== undefined) return stateDir
  const beside = database?.startsWith(sqlite) === true && database !== inMemory
  return beside ? dirname(database.slice(sqlite.length)) : 'data'
}

function databaseOf(database: string | undefined, stateDir: string, base: string): string {
  if (database === undefined) return sqlite + join(stateDir, 'bidweir.db')
  if (!database.startsWith(sqlite) || database === inMemory) return database
  return sqlite + resolve(base, database.slice(sqlite.length))
}

/** Relative paths in a file are relative to the file itself (CONTRACT 2). `base`: its folder, or the working directory. */
function resolvePaths(config: ParsedConfig, base: string): Config {
  const stateDir = resolve(base, chosenDir(config))
  const { store, opd } = config
  const { decisionLog } = opd
  const path = decisionLog === null ? '' : resolve(base, decisionLog.path)
  return {
    ...config,
    stateDir,
    store: { ...store, database: databaseOf(store.database, stateDir, base) },
    opd: { ...opd, decisionLog: decisionLog === null ? null : { ...decisionLog, path } },
  }
}
