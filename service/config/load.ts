/** Loads a YAML file, and its folders of suppliers, into a checked configuration. Reports every fault at once, with its line. */
import { dirname, resolve } from 'node:path'
import { checkConfig, isOpdFault, type LoadedConfig } from './check.ts'
import type { ConfigFault } from './faults.ts'
import { areUnchanged, type FileVersions, readText } from './files.ts'
import { maxSuppliers } from './schema.ts'
import {
  type NamedFolder,
  readSupplierFolders,
  type SupplierFile,
  type UsedSupplierFile,
  withoutConflicts,
} from './supplier-files.ts'
import { readYaml } from './yaml.ts'

/** A file that is cut or half written often has no `suppliers`: to remove all of them, it has to say so. */
const noSuppliers: ConfigFault = {
  path: 'suppliers',
  line: null,
  found: 'nothing, but there are suppliers in use',
  allowed: 'the suppliers; [] removes all of them',
}

/**
 * Reads and checks a configuration with its folders of suppliers, as a start does: a fault in any of them is a fault of the
 * configuration. Invalid input never throws.
 * @param replaces whether the configuration in use has suppliers
 */
export function loadConfig(file: string, replaces = false): LoadedConfig {
  const { loaded, supplierFiles } = new FileLoader(file).loadFiles(null, replaces)
  const { config } = loaded
  if (config === null) return loaded
  const suppliers = supplierFiles.flatMap((supplierFile) => supplierFile.suppliers ?? [])
  return { ...loaded, config: { ...config, suppliers: [...config.suppliers, ...suppliers] } }
}

/**
 * Reads the configuration, without the suppliers of its folders, and the files of these. Files that have not changed since the
 * call before are not parsed and checked again.
 */
export class FileLoader {
  readonly file: string
  private lastMain: MainFile | null = null

  constructor(file: string) {
    this.file = file
  }

  /**
   * @param before the files of suppliers in use, which a file with a fault keeps; null: this is a start
   * @param replaces whether the configuration in use has suppliers
   */
  loadFiles(before: readonly UsedSupplierFile[] | null, replaces = false): LoadedFiles {
    const { lastMain } = this
    const isUsable = lastMain?.loaded.faults.length === 0 && areUnchanged(lastMain.loaded.files)
    const main = isUsable ? lastMain! : loadMain(this.file, replaces)
    this.lastMain = main
    return withFolders(this.file, main, before)
  }
}

interface LoadedFiles {
  loaded: LoadedConfig
  supplierFiles: readonly SupplierFile[]
}

function withFolders(
  file: string,
  { folders, loaded: main }: MainFile,
  before: readonly UsedSupplierFile[] | null,
): LoadedFiles {
  const certifies = main.config?.proxy.tls?.clientCa !== undefined
  const read = readSupplierFolders(folders, before, certifies)
  const mainIds = main.config?.suppliers.map(({ id }) => id) ?? []
  const { supplierFiles, ...conflicts } = withoutConflicts(read, resolve(file), mainIds)
  const fileFaults = [...read.faults, ...conflicts.faults]
  const ids = supplierFiles.flatMap((supplierFile) =>
    supplierFile.ids.map((id) => [id, supplierFile.file] as const),
  )
  const all = mainIds.length + ids.length
  const tooMany: ConfigFault = {
    path: 'suppliersFrom',
    line: null,
    found: `${all} suppliers in all files`,
    allowed: `at most ${maxSuppliers}`,
  }
  const faults = [
    ...main.faults,
    ...conflicts.mainFaults,
    ...(all > maxSuppliers ? [tooMany] : []),
    ...(before === null ? fileFaults : []),
  ]
  const invalidOpd = supplierFiles.flatMap((supplierFile) => supplierFile.invalidOpd)
  const loaded: LoadedConfig = {
    config: faults.every(isOpdFault) ? main.config : null,
    faults,
    invalidOpd: new Set([...main.invalidOpd, ...invalidOpd]),
    files: new Map([...main.files, ...read.versions]),
    nodeFiles: main.nodeFiles,
    keptFaults: before === null ? [] : fileFaults,
    fileOf: new Map(ids),
  }
  return { loaded, supplierFiles }
}

interface MainFile {
  loaded: LoadedConfig
  /** Folders of suppliers, also of a file with faults. */
  folders: readonly NamedFolder[]
}

function loadMain(file: string, replaces: boolean): MainFile {
  const path = resolve(file)
  const read = readText(path)
  const files: FileVersions = new Map([[path, read.version]])
  const refused = (faults: ConfigFault[]): MainFile => ({
    loaded: {
      ...{ config: null, faults, invalidOpd: new Set() },
      ...{ files, nodeFiles: new Set([path]), keptFaults: [], fileOf: new Map() },
    },
    folders: [],
  })
  const fileFault = (found: string, allowed: string) =>
    refused([{ path: '', line: null, found, allowed }])
  if ('fault' in read) return fileFault(`${file}, ${read.fault}`, read.allowed)
  const { root, faults, lineOf } = readYaml(read.text)
  if (root === undefined) return refused(faults)
  // An editor may empty a file before it writes it.
  if (root === null) return fileFault('nothing', 'a map, such as `suppliers: […]`')
  const { suppliers, suppliersFrom } = root as { suppliers?: unknown; suppliersFrom?: unknown }
  if (replaces && suppliers === undefined && suppliersFrom === undefined) faults.push(noSuppliers)
  const base = dirname(path)
  const loaded = checkConfig({ raw: root, base, files, lineOf, faults })
  // Those of a configuration without faults have their variables expanded.
  const named = loaded.config?.suppliersFrom ?? (Array.isArray(suppliersFrom) ? suppliersFrom : [])
  const folders = named.flatMap((name, index): NamedFolder[] => {
    if (typeof name !== 'string') return []
    const line = lineOf(['suppliersFrom', index])
    return [{ folder: resolve(base, name), path: `suppliersFrom[${index}]`, line }]
  })
  return { loaded, folders }
}
