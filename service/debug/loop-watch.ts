/**
 * Turns of the event loop that were late, and what ran then. The proxy's timer calls `tick` every 10 ms; a thread notices when
 * it does not (watch-thread.ts).
 */
import { rm } from 'node:fs/promises'
import { PerformanceObserver } from 'node:perf_hooks'
import { Worker } from 'node:worker_threads'
import type { ServiceLog } from '../log/log.ts'
import type { WatchRequest, WatchResponse, WatchStart } from './watch-messages.ts'

export interface LateTurn {
  /** Milliseconds since the epoch, at its end. */
  endedAt: number
  lateMs: number
  /** Of it, the time that the thread ran: if it is much less, other processes had the CPU, or it was limited. */
  cpuMs: number
  /** Of it, pauses of the garbage collector. */
  gcMs: number
  /** Functions, the innermost first; null: it was not asked, or native code ran. */
  stack: string[] | null
}

/** Seconds after which a tick is late. */
const lateAfter = 0.1
const maxTurns = 50
/** Pauses of the garbage collector that are kept, and their least duration in milliseconds. */
const maxPauses = 200
const leastPause = 5

/** Milliseconds of CPU time of this thread. */
function threadCpu(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

interface Pause {
  start: number
  end: number
}

/** Sees what holds the event loop of this process, on a thread. */
export class LoopWatch {
  private readonly log: ServiceLog
  private readonly ticks = new Int32Array(new SharedArrayBuffer(4))
  /** null: before `start`. */
  private thread: Worker | null = null
  private readonly pauses: Pause[] = []
  private readonly turns: { tick: number; end: number; turn: LateTurn }[] = []
  /** What the thread saw last. Its message may come before or after the tick that ends the turn. */
  private seen: { tick: number; stack: string[] | null } | null = null
  private cpu = threadCpu()
  private written: PromiseWithResolvers<void> | null = null

  constructor(log: ServiceLog) {
    this.log = log
    const collections = new PerformanceObserver((entries) => {
      for (const { startTime, duration } of entries.getEntries())
        if (duration >= leastPause)
          this.pauses.push({ start: startTime, end: startTime + duration })
      this.pauses.splice(0, this.pauses.length - maxPauses)
    })
    collections.observe({ entryTypes: ['gc'] })
  }

  /** Call it when the process serves: before, long turns are usual. */
  start(): void {
    const name = import.meta.url.endsWith('.ts') ? './watch-thread.ts' : './watch-thread.js'
    const { ring, fields } = this.log
    const ticks = this.ticks.buffer as SharedArrayBuffer
    const workerData: WatchStart = { ticks, lines: ring.memory, fields }
    const thread = new Worker(new URL(name, import.meta.url), {
      workerData,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 4 },
    })
    thread.unref()
    thread.on('message', (message: WatchResponse) => this.receive(message))
    thread.on('error', (error) => this.threadEnded((error as Error).message))
    // The end of a process waits for sessions of the inspector.
    process.on('exit', () => this.stop())
    this.thread = thread
  }

  /** No ticks come any more: the process has served its last bid, and ends. */
  stop(): void {
    this.thread?.postMessage('end')
  }

  /**
   * Notes that the event loop goes on.
   *
   * @param late seconds by which this tick is late
   */
  tick(late: number): void {
    const tick = this.ticks[0]!
    Atomics.store(this.ticks, 0, (tick + 1) | 0)
    const cpu = threadCpu()
    const cpuMs = cpu - this.cpu
    this.cpu = cpu
    if (late < lateAfter) return
    const stack = this.seen?.tick === tick ? this.seen.stack : null
    const turn = { endedAt: Date.now(), lateMs: late * 1000, cpuMs, gcMs: 0, stack }
    this.turns.push({ tick, end: performance.now(), turn })
    if (this.turns.length > maxTurns) this.turns.shift()
  }

  /** The last 50, the newest first. */
  lateTurns(): LateTurn[] {
    return this.turns
      .map(({ end, turn }) => ({ ...turn, gcMs: this.pausedBetween(end - turn.lateMs, end) }))
      .reverse()
  }

  private pausedBetween(from: number, to: number): number {
    let sum = 0
    for (const { start, end } of this.pauses)
      sum += Math.max(0, Math.min(end, to) - Math.max(start, from))
    return sum
  }

  /**
   * Writes a profile or a heap snapshot to a file, which only this user may read. Resolves when it is complete.
   *
   * @param request what is written, and the path of the file
   * @throws if it cannot be written, and nothing is left of it; or if another file is being written
   */
  async write(request: WatchRequest): Promise<void> {
    if (this.written !== null) throw new Error('another file is being written')
    if (this.thread === null) throw new Error('the process has just started')
    this.written = Promise.withResolvers()
    this.thread.postMessage(request)
    try {
      await this.written.promise
    } catch (error) {
      await rm(request.path, { force: true })
      throw error
    } finally {
      this.written = null
    }
  }

  private receive(message: WatchResponse): void {
    if (message.kind === 'written') {
      if (message.error === null) this.written?.resolve()
      else this.written?.reject(new Error(message.error))
      return
    }
    this.seen = message
    const turn = this.turns.find(({ tick }) => tick === message.tick)
    if (turn !== undefined) turn.turn.stack = message.stack
  }

  private threadEnded(error: string): void {
    this.log.error({ err: error }, 'the event loop is not watched any more')
    this.written?.reject(new Error(error))
  }
}
