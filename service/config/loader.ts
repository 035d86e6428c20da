/**
 * Loads a configuration on a worker thread with bounded memory and time, and receives the result in time slices, so that
 * no file can block the event loop.
 */
import { resolve } from 'node:path'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import { createSlices } from '../../opd/base/slices.ts'
import type { LoadedConfig } from './check.ts'
import type { ConfigFault } from './faults.ts'
import { currentVersions, type FileVersions } from './files.ts'
import type { SupplierConfig } from './schema.ts'
import type { KnownFile, LoadSummary, LoadTask, SupplierRow } from './worker.ts'

/** Milliseconds, and MiB of the heap; 10,000 suppliers take 400. */
const limits = { time: 30_000, memory: 512 }

/** Suppliers that have not changed are the same objects as in the load before. */
export type Load = () => Promise<LoadedConfig>

/** Rejects with the error that ended the thread. */
async function summaryOf(worker: Worker, time: number): Promise<LoadSummary> {
  let watchdog: NodeJS.Timeout | undefined
  try {
    return await new Promise<LoadSummary>((resolve, reject) => {
      watchdog = setTimeout(
        () => reject(new Error(`it took longer than ${time / 1000} s to read`)),
        time,
      )
      worker.once('message', resolve)
      worker.once('error', reject)
      worker.once('exit', (code) => reject(new Error(`its thread ended with ${code}`)))
    })
  } finally {
    clearTimeout(watchdog)
  }
}

const failureOf = (error: NodeJS.ErrnoException, memory: number) =>
  error.code === 'ERR_WORKER_OUT_OF_MEMORY'
    ? { found: 'a file that takes too much memory to read', allowed: `at most ${memory} MiB` }
    : { found: `a file that cannot be read: ${error.message}`, allowed: 'YAML 1.2' }

/** Passes the next `count` rows to `take`. */
async function receive<Row>(port: MessagePort, count: number, take: (row: Row) => void) {
  const slices = createSlices()
  for (let left = count; left > 0; ) {
    const batch = receiveMessageOnPort(port)!.message as Row[]
    left -= batch.length
    for (const row of batch) {
      take(row)
      await slices.next()
    }
  }
}

export function createLoad(file: string, { time, memory } = limits): Load {
  /** By the digest of their JSON. */
  let known = new Map<string, SupplierConfig>()
  let supplierFiles: readonly KnownFile[] | null = null
  let read: FileVersions = new Map([[resolve(file), '']])

  async function receiveConfig(port: MessagePort, summary: LoadSummary): Promise<LoadedConfig> {
    const { config, invalidOpd, files, nodeFiles, fileOf } = summary
    read = files
    const next = new Map<string, SupplierConfig>()
    await receive<SupplierRow>(port, summary.suppliers, ({ digest, supplier }) => {
      next.set(digest, supplier ?? known.get(digest)!)
    })
    const [faults, keptFaults]: [ConfigFault[], ConfigFault[]] = [[], []]
    await receive<ConfigFault>(port, summary.faults, (fault) => void faults.push(fault))
    await receive<ConfigFault>(port, summary.keptFaults, (fault) => void keptFaults.push(fault))
    const loaded = { faults, keptFaults, invalidOpd, files, nodeFiles, fileOf }
    if (config === null) return { config, ...loaded }
    known = next
    supplierFiles = summary.supplierFiles
    return { config: { ...config, suppliers: [...next.values()] }, ...loaded }
  }

  return async () => {
    const name = import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js'
    const { port1: port, port2 } = new MessageChannel()
    // If the thread ends early, these are what it has read.
    const before = await currentVersions(read.keys())
    const worker = new Worker(new URL(name, import.meta.url), {
      workerData: {
        ...{ file, known: [...known.keys()], before: supplierFiles, port: port2 },
      } satisfies LoadTask,
      transferList: [port2],
      resourceLimits: { maxOldGenerationSizeMb: memory },
    })
    try {
      return await receiveConfig(port, await summaryOf(worker, time))
    } catch (error) {
      const faults = [{ path: '', line: null, ...failureOf(error as Error, memory) }]
      return {
        ...{ config: null, faults, invalidOpd: new Set(), files: before },
        ...{ nodeFiles: new Set<string>(), keptFaults: [], fileOf: new Map() },
      }
    } finally {
      port.close()
      void worker.terminate()
    }
  }
}
