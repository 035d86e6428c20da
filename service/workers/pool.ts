/** The worker processes of a node: started, supervised, replaced, notified of changes, drained. */
import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { atMost } from '../../opd/base/at-most.ts'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { createSlices } from '../../opd/base/slices.ts'
import type { ProcessLoad } from '../../proxy/node-load.ts'
import type { Config, SupplierConfig } from '../config/schema.ts'
import type { WatchRequest } from '../debug/watch-messages.ts'
import { type Methods, Peer } from './peer.ts'
import { type ProcessMetrics, ProcessMetricsBySlot } from './process-metrics.ts'
import {
  type Figures,
  type Progress,
  type ReloadMessage,
  reportEvery,
  type StartMessage,
  suppliersOfMessage,
} from './protocol.ts'

interface PoolOptions {
  /** Processes in all, the first one included. */
  count: number
  /** The state that a worker starts with. */
  start: () => Omit<StartMessage, 'place' | 'port' | 'progress'>
  /** Sent to the workers when it changes. */
  progress: () => Progress
  /** What workers may call, besides `figures`. */
  methods: Methods
  onFigures: (figures: Figures) => void
  log: Log
}

interface Slot {
  index: number
  child: ChildProcess
  peer: Peer
  listens: boolean
  load: ProcessLoad | null
  /** Reports that are due, by the timer of this process, since the last one came. */
  missingReports: number
  /** Files that it writes. */
  writes: number
  hasReported: boolean
  since: number
}

/**
 * Milliseconds that a look-up or a scrape waits for what workers hold. It does not wait for a worker of which
 * `overdueReports` are missing.
 */
const flushTimeout = 250
const overdueReports = 1000 / reportEvery
/**
 * A worker of which so many reports are missing (5 s) does not respond any more: it is killed and replaced. Until the first
 * report of a process its code is loaded, and while it writes a file V8 may stop it (60 s). Reports are counted, not time: a
 * delay of this process is no delay of a worker.
 */
const maxMissingReports = 5000 / reportEvery
const maxMissingAtStart = 60_000 / reportEvery
/** Milliseconds before a worker that ended soon after its start is replaced; doubled each time. */
const firstPause = 100
const longestPause = 10_000
const soon = 10_000
/** Milliseconds between two checks of the progress: `caps.perDay` may be exceeded by the wins of one such interval. */
const progressEvery = 100

/** Each worker has a part of the share of memory that is the heap's (proxy/memory-shares.ts). */
const execArgvOf = (count: number) =>
  process.execArgv.map((flag) =>
    flag.replace(
      /^(--max-old-space-size-percentage=)([\d.]+)$/,
      (_flag, name: string, share: string) => `${name}${Number(share) / count}`,
    ),
  )

/** Sends workers the suppliers that have changed, in time slices, and then the configuration. */
async function reloadAll(
  peers: readonly Peer[],
  { suppliers, ...config }: Config,
  changed: readonly SupplierConfig[],
  invalidOpd: ReadonlySet<string>,
): Promise<PromiseSettledResult<unknown>[]> {
  const slices = createSlices()
  for (let from = 0; from < changed.length; from += suppliersOfMessage)
    for (const peer of peers) {
      peer.notify('suppliers', changed.slice(from, from + suppliersOfMessage))
      await slices.next()
    }
  const message: ReloadMessage = { config, ids: suppliers.map(({ id }) => id), invalidOpd }
  return Promise.allSettled(peers.map((peer) => peer.call('reload', message)))
}

const entry = new URL(
  import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js',
  import.meta.url,
)

export class WorkerPool {
  /** Processes in all, the first one included. */
  readonly count: number
  /** `endedAt`: of the last worker that ended, by `performance.now()`. */
  readonly counts = { ended: 0, endedAt: 0, dropped: 0 }
  readonly metrics = new ProcessMetricsBySlot()
  private readonly options: PoolOptions
  private readonly slots = new Map<number, Slot>()
  /** Bid requests, by worker. */
  private readonly requestsOf = new Map<number, number>()
  private readonly checking: NodeJS.Timeout
  private readonly following: NodeJS.Timeout
  private port = 0
  private stopping = false
  private reloads = 0
  /** The progress that the workers have, as JSON. */
  private notifiedProgress = ''

  constructor(options: PoolOptions) {
    this.options = options
    this.count = options.count
    this.checking = setInterval(() => this.checkReports(), reportEvery).unref()
    this.following = setInterval(() => this.notifyProgress(), progressEvery).unref()
  }

  /** Bid requests of the workers. */
  requests(): ReadonlyMap<number, number> {
    return this.requestsOf
  }

  /** Workers that do not listen now. */
  get missing(): number {
    return this.count - 1 - this.listening().length
  }

  *loads(): Generator<ProcessLoad> {
    for (const { load } of this.slots.values()) if (load !== null) yield load
  }

  /** Numbers of the workers that listen. */
  indices(): number[] {
    return this.listening().map(({ index }) => index)
  }

  /**
   * Starts the workers; resolves when all listen.
   *
   * @param port the port of this process
   * @throws if a worker ends before it listens
   */
  async start(port: number): Promise<void> {
    this.port = port
    const places = Array.from({ length: this.count - 1 }, (_, n) => n + 1)
    await Promise.all(places.map((index) => this.begin(this.spawn(index))))
  }

  notifyAll(method: string, ...args: unknown[]): void {
    for (const { peer } of this.listening()) peer.notify(method, ...args)
  }

  /**
   * Calls the workers that report; resolves when they have responded, or the time is over. Never rejects.
   *
   * @param limit milliseconds
   */
  async callAll<Result>(
    method: string,
    limit: number,
    use: (result: Result, index: number) => void = () => {},
  ): Promise<void> {
    const calls = this.listening()
      .filter(({ missingReports }) => missingReports < overdueReports)
      .map(({ peer, index }) =>
        peer.call<Result>(method).then(
          (result) => use(result, index),
          // A worker that ended is replaced, and logged there.
          () => undefined,
        ),
      )
    await atMost(limit, Promise.all(calls))
  }

  /** Resolves when the first process has all decisions made before the call, or `flushTimeout` is over. */
  readonly flush = oneAtATime(() => this.callAll('flush', flushTimeout))

  /** The same for counters. */
  scrape(): Promise<void> {
    return this.callAll<ProcessMetrics>('scrape', flushTimeout, (result, index) =>
      this.metrics.set(index, result),
    )
  }

  /** Has a worker write a file. Rejects if there is no such worker, or it fails or ends. */
  async write(index: number, request: WatchRequest): Promise<void> {
    const slot = this.slots.get(index)
    if (slot?.listens !== true) throw new Error(`worker ${index} does not listen`)
    // It does not report while V8 makes a snapshot. A report that it sent before may still arrive.
    slot.writes++
    try {
      await slot.peer.call('write', request)
    } finally {
      slot.writes--
      slot.missingReports = 0
    }
  }

  /**
   * Has the workers take a configuration. A worker that ends, or does not take it, is replaced, and starts with it.
   *
   * @param changed suppliers that the first process has just taken
   */
  async reload(
    config: Config,
    changed: readonly SupplierConfig[],
    invalidOpd: ReadonlySet<string>,
  ): Promise<void> {
    this.reloads++
    const reloading = this.listening()
    const peers = reloading.map(({ peer }) => peer)
    const results = await reloadAll(peers, config, changed, invalidOpd)
    for (const [index, { status }] of results.entries())
      if (status === 'rejected') reloading[index]!.child.kill('SIGKILL')
  }

  drain(): void {
    this.stopping = true
    this.notifyAll('drain')
  }

  destroy(): void {
    this.notifyAll('destroy')
  }

  /** Resolves when each worker has answered its requests, handed over what it holds, and ended. */
  async close(): Promise<void> {
    this.stopping = true
    clearInterval(this.following)
    await Promise.all(
      [...this.slots.values()].map(async ({ listens, peer, child }) => {
        // A worker that has ended, or is killed because it does not respond, has nothing to hand over.
        if (listens) await peer.call('close').catch(() => undefined)
        child.kill('SIGKILL')
      }),
    )
    clearInterval(this.checking)
  }

  private listening(): Slot[] {
    return [...this.slots.values()].filter(({ listens }) => listens)
  }

  private spawn(index: number): Slot {
    const { methods, onFigures, log } = this.options
    const child = fork(entry, { serialization: 'advanced', execArgv: execArgvOf(this.count) })
    const peer = new Peer(child, {
      ...methods,
      reported() {
        slot.missingReports = 0
        slot.hasReported = true
      },
      figures: (figures: Figures) => {
        const { dropped, requests } = figures.counts
        slot.load = figures.load
        this.counts.dropped += dropped
        this.requestsOf.set(index, (this.requestsOf.get(index) ?? 0) + requests)
        onFigures(figures)
      },
    })
    const slot: Slot = {
      ...{ index, child, peer, listens: false, load: null, since: performance.now() },
      ...{ missingReports: 0, writes: 0, hasReported: false },
    }
    child.on('error', (error) =>
      log.error({ worker: index, err: error.message }, 'a worker failed'),
    )
    this.slots.set(index, slot)
    return slot
  }

  private async begin(slot: Slot): Promise<void> {
    const { start, progress } = this.options
    const { index, child, peer } = slot
    const exited = new Promise<never>((_resolve, reject) => {
      const ended = (error: Error) => {
        peer.end(error)
        reject(error)
      }
      child.once('exit', (code, signal) => ended(new Error(`a worker ended (${signal ?? code})`)))
      // It could not be started, and has no exit.
      child.on('error', ended)
    })
    // A rejection that nothing awaits would end this process.
    exited.catch(() => undefined)
    let seen = this.reloads
    const place = { index, count: this.count }
    const message = { ...start(), progress: progress(), place, port: this.port }
    await Promise.race([peer.call('start', message), exited])
    // Changes during the start.
    while (seen !== this.reloads) {
      seen = this.reloads
      const { config, invalidOpd } = start()
      const [result] = await reloadAll([peer], config, config.suppliers, invalidOpd)
      if (result?.status === 'rejected') throw result.reason
    }
    peer.notify('location', start().location)
    peer.notify('progress', progress())
    peer.notify('control')
    slot.listens = true
    exited.catch((error: Error) => void this.replace(slot, error))
  }

  /** @param wait milliseconds before the next process starts */
  private async replace(slot: Slot, error: Error, wait = 0): Promise<void> {
    slot.listens = false
    slot.load = null
    if (this.stopping) return
    const { index } = slot
    this.counts.ended++
    this.counts.endedAt = performance.now()
    this.metrics.end(index)
    this.options.log.error(
      { worker: index, pid: slot.child.pid, err: error.message },
      'a worker is replaced',
    )
    await pause(wait)
    if (this.stopping) return
    const next = this.spawn(index)
    const lived = performance.now() - slot.since
    const nextWait = lived < soon ? Math.min(longestPause, Math.max(firstPause, 2 * wait)) : 0
    await this.begin(next).catch((failed: Error) => {
      next.child.kill('SIGKILL')
      return this.replace(next, failed, nextWait)
    })
  }

  /** Kills workers that do not respond any more; their ends replace them. */
  private checkReports(): void {
    for (const slot of this.slots.values()) {
      const reports = slot.hasReported && slot.writes === 0
      const limit = reports ? maxMissingReports : maxMissingAtStart
      // Once: a process that cannot be ended at once is not killed again.
      if (++slot.missingReports !== limit) continue
      const { index, child } = slot
      // One that has ended waits for its replacement.
      if (child.exitCode !== null || child.signalCode !== null) continue
      this.options.log.error(
        { worker: index, pid: child.pid },
        'a worker does not respond and is killed',
      )
      child.kill('SIGKILL')
    }
  }

  private notifyProgress(): void {
    const progress = this.options.progress()
    const text = JSON.stringify(progress)
    if (text !== this.notifiedProgress) this.notifyAll('progress', progress)
    this.notifiedProgress = text
  }
}
