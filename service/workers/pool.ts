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
 * report of a process its code is loaded (60 s). Reports are counted, not time: a delay of this process is no delay of a worker.
 */
const maxMissingReports = 5000 / reportEvery
const maxMissingAtStart = 60_000 / reportEvery
/** Milliseconds before a worker that ended soon after its start is replaced; doubled each time. */
const firstPause = 100
const longestPause = 10_000
const soon = 10_000
/** Milliseconds between two checks of the progress: `caps.perDay` may be exceeded by the wins of one such interval. */
const progressEvery = 100

/** Each worker has a part of the share of memory that is the heap's (proxy/memory.ts). */
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

export type WorkerPool = ReturnType<typeof createWorkerPool>

export function createWorkerPool(options: PoolOptions) {
  const { count, start, progress, methods, onFigures, log } = options
  const slots = new Map<number, Slot>()
  /** `endedAt`: of the last one, by `performance.now()`. */
  const counts = { ended: 0, endedAt: 0, dropped: 0 }
  const metrics = new ProcessMetricsBySlot()
  const requests = new Map<number, number>()
  let port = 0
  let stopping = false
  let reloads = 0

  function spawn(index: number): Slot {
    const child = fork(entry, { serialization: 'advanced', execArgv: execArgvOf(count) })
    const peer = new Peer(child, {
      ...methods,
      reported() {
        slot.missingReports = 0
        slot.hasReported = true
      },
      figures(figures: Figures) {
        slot.load = figures.load
        counts.dropped += figures.counts.dropped
        requests.set(index, (requests.get(index) ?? 0) + figures.counts.requests)
        onFigures(figures)
      },
    })
    const slot: Slot = {
      ...{ index, child, peer, listens: false, load: null, since: performance.now() },
      ...{ missingReports: 0, hasReported: false },
    }
    child.on('error', (error) =>
      log.error({ worker: index, err: error.message }, 'a worker failed'),
    )
    slots.set(index, slot)
    return slot
  }

  async function begin(slot: Slot): Promise<void> {
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
    let seen = reloads
    await Promise.race([
      peer.call('start', { ...start(), progress: progress(), place: { index, count }, port }),
      exited,
    ])
    // Changes during the start.
    while (seen !== reloads) {
      seen = reloads
      const { config, invalidOpd } = start()
      const [result] = await reloadAll([peer], config, config.suppliers, invalidOpd)
      if (result?.status === 'rejected') throw result.reason
    }
    peer.notify('location', start().location)
    peer.notify('progress', progress())
    peer.notify('control')
    slot.listens = true
    exited.catch((error: Error) => void replace(slot, error))
  }

  async function replace(slot: Slot, error: Error, wait = 0): Promise<void> {
    slot.listens = false
    slot.load = null
    if (stopping) return
    const { index } = slot
    counts.ended++
    counts.endedAt = performance.now()
    metrics.end(index)
    log.error({ worker: index, pid: slot.child.pid, err: error.message }, 'a worker is replaced')
    await pause(wait)
    if (stopping) return
    const next = spawn(index)
    const lived = performance.now() - slot.since
    const nextWait = lived < soon ? Math.min(longestPause, Math.max(firstPause, 2 * wait)) : 0
    await begin(next).catch((failed: Error) => {
      next.child.kill('SIGKILL')
      return replace(next, failed, nextWait)
    })
  }

  /** Kills workers that do not respond any more; their ends replace them. */
  function checkReports(): void {
    for (const slot of slots.values()) {
      const limit = slot.hasReported ? maxMissingReports : maxMissingAtStart
      // Once: a process that cannot be ended at once is not killed again.
      if (++slot.missingReports !== limit) continue
      const { index, child } = slot
      // One that has ended waits for its replacement.
      if (child.exitCode !== null || child.signalCode !== null) continue
      log.error({ worker: index, pid: child.pid }, 'a worker does not respond and is killed')
      child.kill('SIGKILL')
    }
  }
  const checking = setInterval(checkReports, reportEvery).unref()

  const listening = () => [...slots.values()].filter(({ listens }) => listens)
  const notifyAll = (method: string, ...args: unknown[]) => {
    for (const { peer } of listening()) peer.notify(method, ...args)
  }
  let notified = ''
  const following = setInterval(() => {
    const value = progress()
    const text = JSON.stringify(value)
    if (text !== notified) notifyAll('progress', value)
    notified = text
  }, progressEvery).unref()
  /** Calls the workers that report; resolves when they have responded, or a time (milliseconds) is over. */
  async function callAll<Result>(
    method: string,
    limit: number,
    use: (result: Result, index: number) => void = () => {},
  ): Promise<void> {
    const calls = listening()
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

  const flush = oneAtATime(() => callAll('flush', flushTimeout))

  return {
    counts,
    metrics,
    count,
    /** Bid requests of the workers. */
    requests: (): ReadonlyMap<number, number> => requests,
    /** Starts the workers on the port of this process; resolves when all listen. */
    async start(boundPort: number): Promise<void> {
      port = boundPort
      const places = Array.from({ length: count - 1 }, (_, n) => n + 1)
      await Promise.all(places.map((index) => begin(spawn(index))))
    },
    /** Workers that do not listen now. */
    get missing(): number {
      return count - 1 - listening().length
    },
    *loads(): Generator<ProcessLoad> {
      for (const { load } of slots.values()) if (load !== null) yield load
    },
    /** Numbers of the workers that listen. */
    indices: (): number[] => listening().map(({ index }) => index),
    callAll,
    /** Has a worker write a file. Rejects if there is no such worker, or it fails or ends. */
    async write(index: number, request: WatchRequest): Promise<void> {
      const slot = slots.get(index)
      if (slot?.listens !== true) throw new Error(`worker ${index} does not listen`)
      // It does not report while V8 makes a snapshot.
      slot.missingReports = -maxMissingAtStart
      await slot.peer.call('write', request)
    },
    /** Resolves when the first process has all decisions made before the call. */
    flush,
    /** The same for counters. */
    scrape: () =>
      callAll<ProcessMetrics>('scrape', flushTimeout, (result, index) =>
        metrics.set(index, result),
      ),
    notifyAll,
    /** `changed`: suppliers that the first process has just taken. */
    async reload(
      config: Config,
      changed: readonly SupplierConfig[],
      invalidOpd: ReadonlySet<string>,
    ): Promise<void> {
      reloads++
      // One that ends, or does not take it, is replaced, and starts with the new configuration.
      const reloading = listening()
      const peers = reloading.map(({ peer }) => peer)
      const results = await reloadAll(peers, config, changed, invalidOpd)
      for (const [at, { status }] of results.entries())
        if (status === 'rejected') reloading[at]!.child.kill('SIGKILL')
    },
    drain() {
      stopping = true
      notifyAll('drain')
    },
    destroy: () => notifyAll('destroy'),
    /** Resolves when each worker has answered its requests, handed over what it holds, and ended. */
    async close(): Promise<void> {
      stopping = true
      clearInterval(following)
      await Promise.all(
        [...slots.values()].map(async ({ listens, peer, child }) => {
          // A worker that has ended, or is killed because it does not respond, has nothing to hand over.
          if (listens) await peer.call('close').catch(() => undefined)
          child.kill('SIGKILL')
        }),
      )
      clearInterval(checking)
    },
  }
}
