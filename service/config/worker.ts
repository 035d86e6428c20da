/** The worker thread that loads a configuration: 3,000 suppliers take a second. */
import { hash } from 'node:crypto'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { LoadedConfig } from './check.ts'
import type { ConfigFault } from './faults.ts'
import type { FileVersions } from './files.ts'
import { loadFiles } from './load.ts'
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

/** Without `supplier`, the supplier is that of the load before with the same digest. */
export interface SupplierRow {
  digest: string
  supplier?: SupplierConfig
}

export interface LoadSummary {
  /** All but the suppliers. */
  config: Omit<NonNullable<LoadedConfig['config']>, 'suppliers'> | null
  invalidOpd: Set<string>
  nodeFiles: Set<string>
  files: FileVersions
  fileOf: LoadedConfig['fileOf']
  suppliers: number
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

/** The main thread receives only what has changed. */
const rowOf = (digest: string, text: string, known: ReadonlySet<string>): string =>
  known.has(digest) ? `{"digest":"${digest}"}` : `{"digest":"${digest}","supplier":${text}}`

const { file, port, known, before } = workerData as LoadTask
const { loaded, supplierFiles } = loadFiles(file, before, known.length > 0)
const { config, invalidOpd, files, nodeFiles, fileOf } = loaded
const faults = truncateFaults(loaded.faults)
const keptFaults = truncateFaults(loaded.keptFaults)
const { suppliers = [], ...rest } = config ?? {}
const knownDigests = new Set(known)
const rows: string[] = []
/** Adds the rows of suppliers; returns their digests. */
const addRows = (added: readonly SupplierConfig[]) =>
  added.map((supplier) => {
    const text = JSON.stringify(supplier)
    const digest = hash('sha256', text, 'base64url')
    rows.push(rowOf(digest, text, knownDigests))
    return digest
  })
addRows(suppliers)
const digestsInUse = new Map(before?.map((each) => [each.file, each.digests]))
const knownFiles = supplierFiles.map(({ suppliers: read, ...used }): KnownFile => {
  if (read !== null) return { ...used, digests: addRows(read) }
  const digests = digestsInUse.get(used.file)!
  rows.push(...digests.map((digest) => rowOf(digest, '', knownDigests)))
  return { ...used, digests }
})
if (config !== null) send(port, rows)
for (const each of [faults, keptFaults])
  send(
    port,
    each.map((fault) => JSON.stringify(fault)),
  )
const summary = {
  config: config === null ? null : (rest as LoadSummary['config']),
  invalidOpd,
  nodeFiles,
  files,
  fileOf,
  suppliers: config === null ? 0 : rows.length,
  supplierFiles: knownFiles,
  faults: faults.length,
  keptFaults: keptFaults.length,
} satisfies LoadSummary
parentPort!.postMessage(summary)
