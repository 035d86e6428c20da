/** The worker thread that loads a configuration: 3,000 suppliers take a second. */
import { hash } from 'node:crypto'
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { blocksOf, type EqualBlocks, equalBlocks } from './blocks.ts'
import type { LoadedConfig } from './check.ts'
import type { ConfigFault } from './faults.ts'
import type { FileVersions } from './files.ts'
import { loadConfig } from './load.ts'
import type { ParsedConfig } from './schema.ts'

export interface LoadTask {
  file: string
  /** Digests of the suppliers of the load before. */
  known: readonly string[]
  /** Receives the batches, all before the summary, which contains their number. */
  port: MessagePort
}

/** `text`: JSON; absent if a supplier is the same as in the load before. `equal`: of a supplier, to the last one with a text. */
export interface Row {
  digest: string
  text?: string
  equal?: EqualBlocks
}

export type Batch = Row[]

export interface LoadSummary {
  /** All but the suppliers. */
  config: Omit<NonNullable<LoadedConfig['config']>, 'suppliers'> | null
  invalidOpd: Set<string>
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

/** The main thread receives and parses only what has changed. */
function sendBatches<T extends object>(
  port: MessagePort,
  rows: readonly T[],
  known: ReadonlySet<string>,
  equalOf: (row: T) => { equal?: EqualBlocks } = () => ({}),
): void {
  let batch: Batch = []
  let length = 0
  for (const row of rows) {
    const text = JSON.stringify(row)
    const digest = hash('sha256', text, 'base64url')
    const isKnown = known.has(digest)
    batch.push(isKnown ? { digest } : { digest, text, ...equalOf(row) })
    length += isKnown ? digest.length : text.length
    if (length < batchBytes) continue
    port.postMessage(batch)
    batch = []
    length = 0
  }
  if (batch.length > 0) port.postMessage(batch)
}

const { file, port, known } = workerData as LoadTask
const { config, invalidOpd, files, ...loaded } = loadConfig(file, known.length > 0)
const faults = truncateFaults(loaded.faults)
const suppliers: ParsedConfig['suppliers'] = config?.suppliers ?? []
let blocks: readonly string[] = []
sendBatches(port, suppliers, new Set(known), (supplier) => {
  const before = blocks
  blocks = blocksOf(supplier)
  return { equal: equalBlocks(blocks, before) }
})
sendBatches(port, faults, new Set())
const { suppliers: _, ...rest } = config ?? { suppliers: [] }
const summary = {
  config: config === null ? null : (rest as LoadSummary['config']),
  ...{ invalidOpd, files, suppliers: suppliers.length, faults: faults.length },
} satisfies LoadSummary
parentPort!.postMessage(summary)
