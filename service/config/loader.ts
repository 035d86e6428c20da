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

/** Milliseconds that the thread of a reload waits for the next one: changes of suppliers often follow each other. */
const keptFor = 60_000

/** The thread that loads, which is started when there is none. */
class LoadThread {
  private worker: Worker | null = null
  private idle: NodeJS.Timeout | undefined
  private readonly time: number
  private readonly memory: number

  constructor({ time, memory }: typeof limits) {
    this.time = time
    this.memory = memory
  }

  /** Rejects with the error that ended the thread. One call at a time. */
  async run(task: LoadTask): Promise<LoadSummary> {
    clearTimeout(this.idle)
    this.worker ??= this.start()
    const { worker, time } = this
    worker.ref()
    let watchdog: NodeJS.Timeout | undefined
    const { promise, resolve, reject } = Promise.withResolvers<LoadSummary>()
    const exited = (code: number) => reject(new Error(`its thread ended with ${code}`))
    worker.once('message', resolve).once('error', reject).once('exit', exited)
    try {
      watchdog = setTimeout(
        () => reject(new Error(`it took longer than ${time / 1000} s to read`)),
        time,
      )
      worker.postMessage(task, [task.port])
      return await promise
    } catch (error) {
      this.end()
      throw error
    } finally {
      clearTimeout(watchdog)
      worker.off('message', resolve).off('error', reject).off('exit', exited).unref()
    }
  }

  private start(): Worker {
    const name = import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js'
    return new Worker(new URL(name, import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: this.memory },
    })
  }

  /** Ends it if no other load follows. */
  keep(): void {
    this.idle = setTimeout(() => this.end(), keptFor).unref()
  }

  end(): void {
    clearTimeout(this.idle)
    // An error after this is that of a thread that is not used any more.
    void this.worker?.on('error', () => {}).terminate()
    this.worker = null
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

/** Loads the configuration on a thread, as often as it is asked to. */
class ConfigLoader {
  private readonly file: string
  private readonly memory: number
  private readonly thread: LoadThread
  /** By the digest of their JSON. */
  private known = new Map<string, SupplierConfig>()
  private supplierFiles: readonly KnownFile[] | null = null
  private readFiles: FileVersions

  constructor(file: string, { time, memory }: typeof limits) {
    this.file = file
    this.memory = memory
    this.thread = new LoadThread({ time, memory })
    this.readFiles = new Map([[resolve(file), '']])
  }

  async loadConfig(): Promise<LoadedConfig> {
    const { port1: port, port2 } = new MessageChannel()
    // If the thread ends early, these are what it has read.
    const before = await currentVersions(this.readFiles.keys())
    const { file, thread, supplierFiles } = this
    const task = { file, known: [...this.known.keys()], before: supplierFiles, port: port2 }
    try {
      return await this.receiveConfig(port, await thread.run(task))
    } catch (error) {
      const faults = [{ path: '', line: null, ...failureOf(error as Error, this.memory) }]
      return {
        ...{ config: null, faults, invalidOpd: new Set(), files: before },
        ...{ nodeFiles: new Set<string>(), keptFaults: [], fileOf: new Map() },
      }
    } finally {
      port.close()
      const isStart = supplierFiles === null
      if (isStart) thread.end()
      else thread.keep()
    }
  }

  private async receiveConfig(port: MessagePort, summary: LoadSummary): Promise<LoadedConfig> {
    const { config, invalidOpd, files, nodeFiles, fileOf } = summary
    this.readFiles = files
    const changed = new Map<string, SupplierConfig>()
    await receive<SupplierRow>(port, summary.changed, ({ digest, supplier }) => {
      changed.set(digest, supplier)
    })
    const [faults, keptFaults]: [ConfigFault[], ConfigFault[]] = [[], []]
    await receive<ConfigFault>(port, summary.faults, (fault) => void faults.push(fault))
    await receive<ConfigFault>(port, summary.keptFaults, (fault) => void keptFaults.push(fault))
    const loaded = { faults, keptFaults, invalidOpd, files, nodeFiles, fileOf }
    if (config === null) return { config, ...loaded }
    this.known = new Map(
      summary.digests.map((digest) => [digest, changed.get(digest) ?? this.known.get(digest)!]),
    )
    this.supplierFiles = summary.supplierFiles
    return { config: { ...config, suppliers: [...this.known.values()] }, ...loaded }
  }
}

/**
 * A function that loads the configuration on a thread, as often as it is called.
 *
 * @param file path
 * @param bounds `time`: milliseconds of one load; `memory`: MiB of the thread
 */
export function createLoad(file: string, bounds = limits): Load {
  const loader = new ConfigLoader(file, bounds)
  return () => loader.loadConfig()
}
