/** The worker thread that loads a configuration: 3,000 suppliers take a second. */
import { hash } from 'node:crypto'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { getOrAdd } from '../../opd/base/get-or-add.ts'
import type { LoadedConfig } from './check.ts'
import type { ConfigFault } from './faults.ts'
import type { FileVersions } from './files.ts'
import { loadConfig } from './load.ts'
import type { SupplierConfig } from './schema.ts'

export interface LoadTask {
  file: string
  /** Digests of the suppliers of the load before. */
  known: readonly string[]
  /** Receives the batches, all before the summary, which contains their number. */
  port: MessagePort
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
  suppliers: number
  faults: number
}

/** Approximate bytes of JSON in one batch. The main thread processes one in less than a millisecond. */
const batchBytes = 16 * 1024
/** A fault quotes the file, whose values may be long. */
const maxText = 500
const maxFaults = 10_000

const truncate = (text: string) => (text.length > maxText ? `${text.slice(0, maxText - 1)}…` : text)

function truncateFaults(faults: readonly ConfigFault[]): ConfigFault[] {
  const reported = faults.slice(0, maxFaults).map(({ path, line, found, allowed }) => {
    return { path: truncate(path), line, found: truncate(found), allowed: truncate(allowed) }
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
function rowOf(supplier: SupplierConfig, known: ReadonlySet<string>): string {
  const text = JSON.stringify(supplier)
  const digest = hash('sha256', text, 'base64url')
  return known.has(digest) ? `{"digest":"${digest}"}` : `{"digest":"${digest}","supplier":${text}}`
}

const { file, port, known } = workerData as LoadTask
const { config, invalidOpd, files, nodeFiles, ...loaded } = loadConfig(file, known.length > 0)
const faults = truncateFaults(loaded.faults)
const { suppliers = [], ...rest } = config ?? {}
const knownDigests = new Set(known)
send(
  port,
  suppliers.map((supplier) => rowOf(supplier, knownDigests)),
)
send(
  port,
  faults.map((fault) => JSON.stringify(fault)),
)
const summary = {
  config: config === null ? null : (rest as LoadSummary['config']),
  invalidOpd,
  nodeFiles,
  files,
  suppliers: suppliers.length,
  faults: faults.length,
} satisfies LoadSummary
parentPort!.postMessage(summary)
