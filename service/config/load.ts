/** From a YAML file to a checked configuration, with every fault at once and where it stands. */
import { dirname, resolve } from 'node:path'
import { type ConfigFault, faultsOf } from './faults.ts'
import { type Path, show } from './path.ts'
import { place } from './places.ts'
import { readText } from './read.ts'
import { type Config, configSchema, crossFaults } from './schema.ts'
import { coerce, type Expansion, expand } from './values.ts'
import { readYaml } from './yaml.ts'

export { type ConfigFault, faultLine } from './faults.ts'

export interface LoadedConfig {
  /** null when a fault other than an `opd` block's stands in the file. */
  config: Config | null
  faults: ConfigFault[]
  /** Suppliers whose `opd` block has faults: OPD is off for them (CONTRACT 2). */
  invalidOpd: Set<string>
  /** Every file that was read, the configuration first: what a watcher has to watch. */
  files: string[]
}

/** Reads and checks one file. Never throws for what a user can write. */
export function loadConfig(file: string): LoadedConfig {
  const path = resolve(file)
  const files = [path]
  const whole = (found: string, allowed: string): LoadedConfig => ({
    config: null,
    faults: [{ path: '', line: null, found, allowed }],
    invalidOpd: new Set(),
    files,
  })
  const read = readText(path)
  if ('fault' in read) return whole(`${file}, ${read.fault}`, read.allowed)
  const { root, faults, lineOf } = readYaml(read.text)
  if (root === undefined) return { ...whole('', ''), faults }
  // Also what an editor leaves between emptying a file and filling it again.
  if (root === null) return whole('nothing', 'a map, such as `suppliers: […]`')
  return check(root, dirname(path), files, lineOf, faults)
}

/** Checks a configuration that is already a value, such as the embedded default. */
export function check(
  raw: unknown,
  base: string,
  files: string[] = [],
  lineOf: (path: Path) => number | null = () => null,
  before: readonly ConfigFault[] = [],
): LoadedConfig {
  const into: Expansion = { files, faults: [], outside: new Map(), tooDeep: false }
  const root = expand(raw, [], base, into)
  let result = configSchema.safeParse(root)
  if (!result.success && coerce(root, result.error.issues, into.outside))
    result = configSchema.safeParse(root)
  const unset = new Set(into.faults.map((fault) => show(fault.path)))
  const faults = [
    ...before,
    ...into.faults.map((fault) => ({
      ...fault,
      path: show(fault.path),
      line: lineOf(fault.path),
    })),
  ]
  const invalidOpd = new Set<string>()
  for (const { path, found, allowed } of crossFaults(root))
    faults.push({ path: show(path), line: lineOf(path), found, allowed })
  if (!result.success) {
    const issues = result.error.issues.filter((issue) => !unset.has(show(issue.path)))
    for (const fault of faultsOf(issues, root, into.outside, lineOf)) faults.push(fault)
  }
  if (faults.length === 0)
    return { config: result.success ? place(result.data, base) : null, faults, invalidOpd, files }
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
  return { config: rest.success ? place(rest.data, base) : null, faults, invalidOpd, files }
}
