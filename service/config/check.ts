/** Checks a configuration: every fault at once, with its line. Makes its paths absolute. */
import { dirname, join, resolve } from 'node:path'
import type * as z from 'zod'
import { crossFaults, supplierFaults } from './cross-faults.ts'
import { type ConfigFault, faultsOf } from './faults.ts'
import type { FileVersions } from './files.ts'
import {
  type Config,
  configSchema,
  type ParsedConfig,
  type SupplierConfig,
  supplierFileSchema,
} from './schema.ts'
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
  /** Faults of files of `suppliersFrom` that were loaded before: their suppliers stay as they were. */
  keptFaults: ConfigFault[]
  /** The file of `suppliersFrom` that has a supplier, by id. */
  fileOf: ReadonlyMap<string, string>
}

const opdBlock = /^suppliers\[(\d+)\]\.opd(\.|$|\[)/

/** Whether the fault switches OPD of one supplier off at a start, and nothing else. */
export const isOpdFault = ({ path }: ConfigFault) => opdBlock.test(path)

/** A document of YAML that was parsed. */
export interface Source {
  raw: unknown
  /** The folder of relative paths. */
  base: string
  /** Receives the files that the document names. */
  files: FileVersions
  lineOf: (path: Path) => number | null
  /** Faults that were found while the document was parsed. */
  faults: readonly ConfigFault[]
}

interface Checked<Value> {
  /** null if there is a fault outside of the suppliers' `opd` blocks. */
  value: Value | null
  faults: ConfigFault[]
  invalidOpd: Set<string>
}

/**
 * Checks a configuration that is already a value, such as the default configuration.
 *
 * @param raw the value, whose references to files and variables are not resolved yet
 * @param base the folder of relative paths
 * @returns the configuration, or null with its faults; never throws for what the value contains
 */
export const check = (raw: unknown, base: string): LoadedConfig =>
  checkConfig({ raw, base, files: new Map(), lineOf: () => null, faults: [] })

export function checkConfig(source: Source): LoadedConfig {
  const { files } = source
  const nodeFiles = new Set(files.keys())
  const { value, ...checked } = checkSource(source, configSchema, crossFaults, nodeFiles)
  const config = value === null ? null : resolvePaths(value, source.base)
  return { config, ...checked, files, nodeFiles, keptFaults: [], fileOf: new Map() }
}

/**
 * Checks a file of a folder of `suppliersFrom`.
 * @param certifies whether there is `proxy.tls.clientCa`
 */
export function checkSupplierFile(
  source: Source,
  certifies: boolean,
): Checked<{ suppliers: SupplierConfig[] }> {
  const faults = (root: unknown, external: ReadonlyMap<string, string>) =>
    supplierFaults((root as { suppliers?: unknown } | null)?.suppliers, external, certifies)
  return checkSource(source, supplierFileSchema, faults, new Set())
}

function checkSource<Value>(
  { raw, base, files, lineOf, faults: before }: Source,
  schema: z.ZodType<Value> & { shape: object },
  crossFaultsOf: typeof crossFaults,
  nodeFiles: Set<string>,
): Checked<Value> {
  const external = new Map<string, string>()
  const expansion: Expansion = { files, nodeFiles, faults: [], external, tooDeep: false }
  const root = expand(raw, [], base, expansion)
  let parsed = schema.safeParse(root)
  // Values of environment variables and other files are text. If the schema expects another type, they are converted.
  if (!parsed.success && coerce(root, parsed.error.issues, external))
    parsed = schema.safeParse(root)
  const unset = new Set(expansion.faults.map((fault) => pathText(fault.path)))
  const faults = [...before]
  for (const { path, found, allowed } of [...expansion.faults, ...crossFaultsOf(root, external)])
    faults.push({ path: pathText(path), line: lineOf(path), found, allowed })
  const invalidOpd = new Set<string>()
  if (!parsed.success) {
    const issues = parsed.error.issues.filter((issue) => !unset.has(pathText(issue.path)))
    for (const fault of faultsOf(issues, root, external, lineOf, Object.keys(schema.shape)))
      faults.push(fault)
  }
  const checked = (result: typeof parsed) => ({
    value: result.success ? result.data : null,
    faults,
    invalidOpd,
  })
  if (faults.length === 0) return checked(parsed)
  if (!faults.every(isOpdFault)) return { value: null, faults, invalidOpd }
  // All faults are in `opd` blocks: OPD is off for their suppliers, and the rest is valid without the blocks.
  const suppliers = (root as { suppliers: Record<string, unknown>[] }).suppliers
  for (const fault of faults) {
    const supplier = suppliers[Number(opdBlock.exec(fault.path)![1])]!
    invalidOpd.add(String(supplier['id']))
    delete supplier['opd']
  }
  return checked(schema.safeParse(root))
}

const sqlite = 'sqlite:'
const inMemory = 'sqlite::memory:'

/** Without `stateDir` the state is in the folder of the SQLite file, so that a backup of the folder has both. */
function chosenDir({ stateDir, store: { database } }: ParsedConfig): string {
  if (stateDir !== undefined) return stateDir
  const beside = database?.startsWith(sqlite) === true && database !== inMemory
  return beside ? dirname(database.slice(sqlite.length)) : 'data'
}

/** A node with models of a file has no notices, so nothing in its database outlives it. */
function databaseOf({ store, models }: ParsedConfig, stateDir: string, base: string): string {
  const { database } = store
  if (database === undefined)
    return models.from === null ? sqlite + join(stateDir, 'bidweir.db') : inMemory
  if (!database.startsWith(sqlite) || database === inMemory) return database
  return sqlite + resolve(base, database.slice(sqlite.length))
}

const agentPort = 50051

/** Exchanges that run agents say by SERVER_PORT where they call. */
const agentAddress = () => `0.0.0.0:${process.env['SERVER_PORT'] || agentPort}`

const resolvedLog = (log: ParsedConfig['proxy']['accessLog'], base: string) =>
  log === null || log.path === 'stdout' ? log : { ...log, path: resolve(base, log.path) }

/** Relative paths in a file are relative to the file itself (CONTRACT 2). `base`: its folder, or the working directory. */
function resolvePaths(config: ParsedConfig, base: string): Config {
  const stateDir = resolve(base, chosenDir(config))
  const { store, opd, agent, models, proxy } = config
  const { decisionLog } = opd
  const path = decisionLog === null ? '' : resolve(base, decisionLog.path)
  return {
    ...config,
    stateDir,
    store: { ...store, database: databaseOf(config, stateDir, base) },
    agent: agent === null ? null : { ...agent, listen: agent.listen ?? agentAddress() },
    models: { ...models, from: models.from === null ? null : resolve(base, models.from) },
    opd: { ...opd, decisionLog: decisionLog === null ? null : { ...decisionLog, path } },
    proxy: { ...proxy, accessLog: resolvedLog(proxy.accessLog, base) },
    suppliersFrom: config.suppliersFrom.map((folder) => resolve(base, folder)),
  }
}
