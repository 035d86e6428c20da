/** Checks a configuration: every fault at once, with its line. */
import { crossFaults } from './cross-faults.ts'
import { type ConfigFault, faultsOf } from './faults.ts'
import type { FileVersions } from './files.ts'
import { resolvePaths } from './resolve-paths.ts'
import { type Config, configSchema } from './schema.ts'
import { coerce, type Expansion, expand, type Path, pathText } from './values.ts'

export interface LoadedConfig {
  /** null if there is a fault outside of the suppliers' `opd` blocks. */
  config: Config | null
  faults: ConfigFault[]
  /** Suppliers whose `opd` block has faults: OPD is off for them (CONTRACT 2). */
  invalidOpd: Set<string>
  /** Every file that was read, the configuration first. A watcher compares them with the present ones. */
  files: FileVersions
}

/** Checks a configuration that is already a value, such as the default configuration. */
export function check(
  raw: unknown,
  base: string,
  files: FileVersions = new Map(),
  lineOf: (path: Path) => number | null = () => null,
  before: readonly ConfigFault[] = [],
): LoadedConfig {
  const into: Expansion = { files, faults: [], external: new Map(), tooDeep: false }
  const root = expand(raw, [], base, into)
  let result = configSchema.safeParse(root)
  if (!result.success && coerce(root, result.error.issues, into.external))
    result = configSchema.safeParse(root)
  const unset = new Set(into.faults.map((fault) => pathText(fault.path)))
  const faults = [
    ...before,
    ...into.faults.map((fault) => ({
      ...fault,
      path: pathText(fault.path),
      line: lineOf(fault.path),
    })),
  ]
  const invalidOpd = new Set<string>()
  for (const { path, found, allowed } of crossFaults(root))
    faults.push({ path: pathText(path), line: lineOf(path), found, allowed })
  if (!result.success) {
    const issues = result.error.issues.filter((issue) => !unset.has(pathText(issue.path)))
    for (const fault of faultsOf(issues, root, into.external, lineOf)) faults.push(fault)
  }
  if (faults.length === 0)
    return {
      config: result.success ? resolvePaths(result.data, base) : null,
      faults,
      invalidOpd,
      files,
    }
  const opdBlock = /^suppliers\[(\d+)\]\.opd(\.|$|\[)/
  if (!faults.every((fault) => opdBlock.test(fault.path)))
    return { config: null, faults, invalidOpd, files }
  const suppliers = (root as { suppliers: Record<string, unknown>[] }).suppliers
  for (const fault of faults) {
    const supplier = suppliers[Number(opdBlock.exec(fault.path)![1])]!
    invalidOpd.add(String(supplier['id']))
    delete supplier['opd']
  }
  const rest = configSchema.safeParse(root)
  return { config: rest.success ? resolvePaths(rest.data, base) : null, faults, invalidOpd, files }
}
