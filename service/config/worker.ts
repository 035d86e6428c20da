/** The thread that a configuration is read, parsed and checked on: 3,000 suppliers hold a thread for a second. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { type ConfigFault, type LoadedConfig, loadConfig } from './load.ts'
import type { ParsedConfig } from './schema.ts'

export interface LoadTask {
  file: string
  /** Where batches go: before the summary, which says how many there are. */
  port: MessagePort
}

/** Suppliers and faults as JSON, so that the main thread makes objects only of what it has not got. */
export type Batch = string[]

export interface LoadSummary {
  /** All but the suppliers. */
  config: Omit<NonNullable<LoadedConfig['config']>, 'suppliers'> | null
  invalidOpd: Set<string>
  files: string[]
  suppliers: number
  faults: number
}

/** Bytes of JSON in one batch, about; the main thread takes one in well under a millisecond. */
const batchLength = 16 * 1024
/** A fault repeats what stands in the file, which may be anything. */
const longestText = 500
const mostFaults = 10_000

const short = (text: string) =>
  text.length > longestText ? `${text.slice(0, longestText - 1)}…` : text

function shortened(faults: readonly ConfigFault[]): ConfigFault[] {
  const told = faults.slice(0, mostFaults).map(({ path, line, found, allowed }) => {
    return { path: short(path), line, found: short(found), allowed: short(allowed) }
  })
  const left = faults.length - told.length
  if (left > 0) told.push({ path: '', line: null, found: `${left} faults more`, allowed: 'none' })
  return told
}

function sendBatches(port: MessagePort, rows: readonly object[]): void {
  let batch: Batch = []
  let length = 0
  for (const row of rows) {
    const text = JSON.stringify(row)
    batch.push(text)
    length += text.length
    if (length < batchLength) continue
    port.postMessage(batch)
    batch = []
    length = 0
  }
  if (batch.length > 0) port.postMessage(batch)
}

const { file, port } = workerData as LoadTask
const { config, invalidOpd, files, ...loaded } = loadConfig(file)
const faults = shortened(loaded.faults)
const suppliers: ParsedConfig['suppliers'] = config?.suppliers ?? []
sendBatches(port, suppliers)
sendBatches(port, faults)
const { suppliers: _, ...rest } = config ?? { suppliers: [] }
const summary = {
  config: config === null ? null : (rest as LoadSummary['config']),
  ...{ invalidOpd, files, suppliers: suppliers.length, faults: faults.length },
} satisfies LoadSummary
parentPort!.postMessage(summary)
