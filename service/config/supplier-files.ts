/**
 * The files of the folders of `suppliersFrom`, such as mounted ConfigMaps. Each has suppliers, and is used or refused as a
 * whole: a file with a fault keeps the suppliers that it had, and stops no other file.
 */
import { dirname, join } from 'node:path'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import { checkSupplierFile } from './check.ts'
import type { ConfigFault } from './faults.ts'
import { areUnchanged, type FileVersions, readFolder, readText } from './files.ts'
import type { SupplierConfig } from './schema.ts'
import type { Path } from './values.ts'
import { readYaml } from './yaml.ts'

/** A folder that `suppliersFrom` names. */
export interface NamedFolder {
  /** Absolute path. */
  folder: string
  /** `suppliersFrom[0]`. */
  path: string
  /** Of the configuration file. */
  line: number | null
}

/** A file as it is in use. */
export interface UsedSupplierFile {
  /** Absolute path. */
  file: string
  folder: string
  /** The file, and those that it names. */
  versions: FileVersions
  ids: readonly string[]
  /** Suppliers whose `opd` block has faults, since the start. */
  invalidOpd: readonly string[]
  /** Whether there was `proxy.tls.clientCa` when it was checked. */
  certifies: boolean
}

/** `suppliers` null: those that are in use. */
export interface SupplierFile extends UsedSupplierFile {
  suppliers: readonly SupplierConfig[] | null
}

/** What becomes of one file. */
interface Choice {
  /** null: none of its content is used. */
  current: SupplierFile | null
  isNew: boolean
  /** As it is in use; null: it is not. */
  kept: SupplierFile | null
  lineOf: (path: Path) => number | null
}

export interface SupplierFolders {
  choices: Choice[]
  faults: ConfigFault[]
  /** What a watcher compares: folders, files, and the files that they name. */
  versions: FileVersions
}

const isSupplierFile = (name: string) => /^[^.].*\.(ya?ml|json)$/.test(name)

/** A watcher asks for the version of each several times a second. */
const maxFiles = 512

const keeps = (kept: SupplierFile | null): Choice => ({
  current: kept,
  isNew: false,
  kept,
  lineOf: () => null,
})

function readFile(
  file: string,
  kept: SupplierFile | null,
  isStart: boolean,
  certifies: boolean,
): { choice: Choice; faults: ConfigFault[]; versions: FileVersions } {
  if (kept !== null && kept.certifies === certifies && areUnchanged(kept.versions))
    return { choice: keeps(kept), faults: [], versions: kept.versions }
  const read = readText(file)
  const versions: FileVersions = new Map([[file, read.version]])
  const refused = (faults: readonly ConfigFault[]) => ({
    choice: keeps(kept),
    faults: faults.map((fault) => ({ ...fault, file })),
    versions,
  })
  if ('fault' in read)
    return refused([{ path: '', line: null, found: `a file ${read.fault}`, allowed: read.allowed }])
  const { root, faults: before, lineOf } = readYaml(read.text)
  if (root === undefined) return refused(before)
  const folder = dirname(file)
  const source = { raw: root, base: folder, files: versions, lineOf, faults: before }
  const { value, faults, invalidOpd } = checkSupplierFile(source, certifies)
  // A start accepts an `opd` block with faults; a reload would switch OPD off unnoticed.
  const isUsable = value !== null && (faults.length === 0 || isStart)
  if (!isUsable) return refused(faults)
  const { suppliers } = value
  const ids = suppliers.map(({ id }) => id)
  const current = { file, folder, versions, ids, invalidOpd: [...invalidOpd], certifies, suppliers }
  return { ...refused(faults), choice: { current, isNew: true, kept, lineOf } }
}

/**
 * @param before the files in use; null: this is a start
 * @param certifies whether there is `proxy.tls.clientCa`
 */
export function readSupplierFolders(
  folders: readonly NamedFolder[],
  before: readonly UsedSupplierFile[] | null,
  certifies: boolean,
): SupplierFolders {
  const all: SupplierFolders = { choices: [], faults: [], versions: new Map() }
  const used = new Map(before?.map((entry) => [entry.file, { ...entry, suppliers: null }]))
  const byFolder = new Map(folders.map((named) => [named.folder, named]))
  for (const { folder, path, line } of byFolder.values()) {
    const read = readFolder(folder)
    all.versions.set(folder, read.version)
    const names = 'names' in read ? read.names.filter(isSupplierFile) : []
    const keptFiles = [...used.values()].filter((entry) => entry.folder === folder)
    const refuse = (found: string, allowed: string) => {
      all.faults.push({ path, line, found: `${folder}, ${found}`, allowed })
      all.choices.push(...keptFiles.map(keeps))
      for (const { versions } of keptFiles) addTo(all.versions, versions)
    }
    if ('fault' in read) refuse(read.fault, read.allowed)
    else if (names.length > maxFiles)
      refuse(`which has ${names.length} files`, `at most ${maxFiles} files (.yaml, .yml, .json)`)
    else if (names.length === 0 && keptFiles.length > 0)
      refuse(
        'which has no file, but suppliers of the folder are in use',
        'a file; `suppliers: []` in it removes all',
      )
    else
      for (const name of names) {
        const file = join(folder, name)
        const kept = used.get(file) ?? null
        const { choice, faults, versions } = readFile(file, kept, before === null, certifies)
        all.choices.push(choice)
        all.faults.push(...faults)
        addTo(all.versions, versions)
      }
  }
  return all
}

function addTo(versions: FileVersions, more: FileVersions): void {
  for (const [file, version] of more) versions.set(file, version)
}

/** The files that have each id, the configuration file first. */
function ownersOf(choices: readonly Choice[], mainFile: string, mainIds: Iterable<string>) {
  const owners = new Map<string, string[]>()
  for (const id of mainIds) owners.set(id, [mainFile])
  for (const { current } of choices)
    for (const id of current?.ids ?? []) getOrAdd(owners, id, () => []).push(current!.file)
  return owners
}

/** The ids of a file that another one has, too. */
function conflictsOf(choice: Choice, owners: ReadonlyMap<string, string[]>): ConfigFault[] {
  const { file, ids } = choice.current!
  return ids.flatMap((id, index): ConfigFault[] => {
    const owner = owners.get(id)!.find((other) => other !== file)
    if (owner === undefined) return []
    const path = `suppliers[${index}].id`
    const line = choice.lineOf(['suppliers', index, 'id'])
    const found = `${JSON.stringify(id)}, which ${owner} has, too`
    return [{ path, line, file, found, allowed: 'an id in one file' }]
  })
}

/**
 * The files in use from now on. If two have the same id, the one that has changed is refused: a supplier that moves between
 * two ConfigMaps is in both for a while, because kubelet replaces one after the other.
 * @param mainFile the configuration file
 * @param mainIds its suppliers
 */
export function withoutConflicts(
  { choices }: SupplierFolders,
  mainFile: string,
  mainIds: readonly string[],
) {
  const faults: ConfigFault[] = []
  // A file that is refused has its former suppliers again, which may be another conflict. Each is refused once at most.
  for (let found = true; found; ) {
    found = false
    const owners = ownersOf(choices, mainFile, mainIds)
    // Of two new files the first in order is used.
    for (const choice of choices.toReversed()) {
      const conflicts = choice.isNew ? conflictsOf(choice, owners) : []
      if (conflicts.length === 0) continue
      found = true
      faults.push(...conflicts)
      Object.assign(choice, keeps(choice.kept))
      break
    }
  }
  const supplierFiles = choices.flatMap(({ current }) => (current === null ? [] : [current]))
  const inMain = new Set(mainIds)
  /** What the configuration file has changed to: ids of files in use. */
  const mainFaults = supplierFiles.flatMap(({ file, ids }) =>
    ids
      .filter((id) => inMain.has(id))
      .map((id): ConfigFault => {
        const found = `${JSON.stringify(id)}, which ${file} has, too`
        return { path: 'suppliers', line: null, found, allowed: 'an id in one file' }
      }),
  )
  return { supplierFiles, faults, mainFaults }
}
