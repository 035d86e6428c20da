/** The worker thread that loads a configuration: 3,000 suppliers take a second. It serves one load after another. */
import { hash } from 'node:crypto'
import { type MessagePort, parentPort } from 'node:worker_threads'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { LoadedConfig } from './check.ts'
import type { ConfigFault } from './faults.ts'
import type { FileVersions } from './files.ts'
import { FileLoader } from './load.ts'
import type { SupplierConfig } from './schema.ts'
import type { UsedSupplierFile } from './supplier-files.ts'

export interface LoadTask {
  file: string
  /** Digests of the suppliers of the load before. */
  known: readonly string[]
  /** The files of suppliers in use; null: this is a start. */
  before: readonly KnownFile[] | null
  /** Receives the batches, all before the summary, which contains their number. */
  port: MessagePort
}

/** A file of suppliers, with their digests. */
export interface KnownFile extends UsedSupplierFile {
  digests: readonly string[]
}

/** A supplier that the load before did not have. */
export interface SupplierRow {
  digest: string
  supplier: SupplierConfig
}

export interface LoadSummary {
  /** All but the suppliers. */
  config: Omit<NonNullable<LoadedConfig['config']>, 'suppliers'> | null
  invalidOpd: Set<string>
  nodeFiles: Set<string>
  files: FileVersions
  fileOf: LoadedConfig['fileOf']
  /** Digests of all suppliers, in order. */
  digests: readonly string[]
  /** Rows of suppliers. */
  changed: number
  supplierFiles: readonly KnownFile[]
  faults: number
  keptFaults: number
}

/** Approximate bytes of JSON in one batch. The main thread processes one in less than a millisecond. */
const batchBytes = 16 * 1024
/** A fault quotes the file, whose values may be long. */
const maxText = 500
const maxFaults = 10_000

const truncate = (text: string) => (text.length > maxText ? `${text.slice(0, maxText - 1)}…` : text)

function truncateFaults(faults: readonly ConfigFault[]): ConfigFault[] {
  const reported = faults.slice(0, maxFaults).map((fault): ConfigFault => {
    const { path, found, allowed } = fault
    return { ...fault, path: truncate(path), found: truncate(found), allowed: truncate(allowed) }
  })
  const left = faults.length - reported.length
  if (left > 0)
    reported.push({ path: '', line: null, found: `${left} faults more`, allowed: 'none' })
  return reported
}

/**
 * Equal objects become one, also where the message is received. Most suppliers leave most blocks at their defaults, and
 * the garbage collector copies all new objects of a reload in one turn.
 */
function withSharedObjects(rows: readonly string[]): unknown[] {
  const objects = new Map<string, unknown>()
  return JSON.parse(`[${rows.join()}]`, (_key, value: unknown) =>
    typeof value === 'object' ? getOrAdd(objects, JSON.stringify(value), () => value) : value,
  )
}

/** Sends rows of JSON in batches. */
function send(port: MessagePort, rows: readonly string[]): void {
  let batch: string[] = []
  let length = 0
  for (const row of rows) {
    batch.push(row)
    length += row.length
    if (length < batchBytes) continue
    port.postMessage(withSharedObjects(batch))
    batch = []
    length = 0
  }
  if (batch.length > 0) port.postMessage(withSharedObjects(batch))
}

/** Those of the file that is loaded again and again are the same objects while it is unchanged. */
const digests = new WeakMap<SupplierConfig, string>()

/** The digests of suppliers; adds rows of those that are not known. */
function digestsOf(
  suppliers: readonly SupplierConfig[],
  known: ReadonlySet<string>,
  rows: string[],
): string[] {
  return suppliers.map((supplier) => {
    const found = digests.get(supplier)
    if (found !== undefined && known.has(found)) return found
    const text = JSON.stringify(supplier)
    const digest = hash('sha256', text, 'base64url')
    digests.set(supplier, digest)
    // The main thread receives only what has changed.
    if (!known.has(digest)) rows.push(`{"digest":"${digest}","supplier":${text}}`)
    return digest
  })
}

let loader: FileLoader | undefined

function load({ file, port, known: knownDigests, before }: LoadTask): void {
  loader ??= new FileLoader(file)
  const { loaded, supplierFiles } = loader.loadFiles(before, knownDigests.length > 0)
  const { config, invalidOpd, files, nodeFiles, fileOf } = loaded
  const faults = truncateFaults(loaded.faults)
  const keptFaults = truncateFaults(loaded.keptFaults)
  const { suppliers = [], ...rest } = config ?? {}
  const known = new Set(knownDigests)
  const rows: string[] = []
  const all = digestsOf(suppliers, known, rows)
  const digestsInUse = new Map(before?.map((entry) => [entry.file, entry.digests]))
  const knownFiles = supplierFiles.map(({ suppliers: read, ...used }): KnownFile => {
    const digests = read === null ? digestsInUse.get(used.file)! : digestsOf(read, known, rows)
    all.push(...digests)
    return { ...used, digests: digests }
  })
  if (config !== null) send(port, rows)
  for (const list of [faults, keptFaults])
    send(
      port,
      list.map((fault) => JSON.stringify(fault)),
    )
  const summary = {
    config: config === null ? null : (rest as LoadSummary['config']),
    invalidOpd,
    nodeFiles,
    files,
    fileOf,
    digests: config === null ? [] : all,
    changed: config === null ? 0 : rows.length,
    supplierFiles: knownFiles,
    faults: faults.length,
    keptFaults: keptFaults.length,
  } satisfies LoadSummary
  parentPort!.postMessage(summary)
}

parentPort!.on('message', load)
