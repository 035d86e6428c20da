/** What `/api/svc/debug/` reads and does, on all processes of this node. */
import { randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { DebugAccess, Turn } from '../../admin/debug/access.ts'
import type { Log } from '../../opd/base/log.ts'
import type { RefusedRequest } from '../../proxy/refused-requests.ts'
import type { LogLevel } from '../log/levels.ts'
import { debugFolder } from './debug-socket.ts'
import type { LateTurn } from './loop-watch.ts'
import type { WatchRequest } from './watch-messages.ts'

/** A log whose level can be changed. `dropped`: lines that could not wait any longer. */
export type LeveledLog = Log & { level: LogLevel; readonly dropped?: number }

/** The tools of one process. */
export interface ProcessTools {
  lateTurns(): LateTurn[]
  refused(): RefusedRequest[]
  write(request: WatchRequest): Promise<void>
}

/** The other processes of the node. */
interface OtherProcesses {
  indices(): number[]
  notifyAll(method: string, ...args: unknown[]): void
  /** Calls those that respond; `limit`: milliseconds. */
  callAll<Result>(
    method: string,
    limit: number,
    use: (result: Result, index: number) => void,
  ): Promise<void>
  write(index: number, request: WatchRequest): Promise<void>
}

interface Parts {
  log: LeveledLog
  tools: ProcessTools
  /** null: there are no other processes. */
  pool: OtherProcesses | null
  stateDir: string
}

/** Milliseconds that a call waits for other processes. */
const longestCall = 1000
const maxTurns = 100

/** What `bidweir debug` asks of all processes of this node. */
export class Debugging implements DebugAccess {
  private readonly parts: Parts
  private configured: LogLevel
  private temporary: { level: LogLevel; until: number } | null = null
  private timer: NodeJS.Timeout | undefined

  constructor(parts: Parts) {
    this.parts = parts
    this.configured = parts.log.level
  }

  // --- the level of the log ---

  get level(): { level: LogLevel; configured: LogLevel; until: number | null } {
    const { configured, temporary } = this
    return {
      level: temporary?.level ?? configured,
      configured,
      until: temporary?.until ?? null,
    }
  }

  /** @param level of the configuration, at a reload. A temporary level stays until its time is over. */
  configure(level: LogLevel): void {
    this.configured = level
    this.applyLevel()
  }

  /** `ms`: milliseconds until the configured level is back. */
  setLevel(level: LogLevel, ms: number): void {
    clearTimeout(this.timer)
    this.temporary = { level, until: Date.now() + ms }
    this.timer = setTimeout(() => {
      this.temporary = null
      this.applyLevel()
    }, ms).unref()
    this.applyLevel()
  }

  private applyLevel(): void {
    const { level } = this.level
    this.parts.log.level = level
    this.parts.pool?.notifyAll('logLevel', level)
  }

  // --- what processes remember ---

  processes(): number[] {
    return [0, ...(this.parts.pool?.indices() ?? [])]
  }

  async lateTurns(): Promise<Turn[]> {
    const turns = await this.ofAll<LateTurn>('lateTurns', this.parts.tools.lateTurns())
    return turns.sort((one, other) => other.endedAt - one.endedAt).slice(0, maxTurns)
  }

  async refused(): Promise<(RefusedRequest & { process: number })[]> {
    const requests = await this.ofAll<RefusedRequest>('refused', this.parts.tools.refused())
    return requests.sort((one, other) => other.time - one.time)
  }

  /** A process that does not respond is left out. */
  private async ofAll<Row extends object>(
    method: string,
    ownRows: readonly Row[],
  ): Promise<(Row & { process: number })[]> {
    const all = ownRows.map((row) => ({ ...row, process: 0 }))
    await this.parts.pool?.callAll<Row[]>(method, longestCall, (rows, process) => {
      for (const row of rows) all.push({ ...row, process })
    })
    return all
  }

  // --- files ---

  profile(process: number, ms: number): Promise<Readable> {
    return this.written(process, (path) => ({ kind: 'profile', path, ms }))
  }

  heapSnapshot(process: number): Promise<Readable> {
    return this.written(process, (path) => ({ kind: 'heap', path }))
  }

  /** The file is removed when it is open: it has no name while it is sent. */
  private async written(
    process: number,
    requestOf: (path: string) => WatchRequest,
  ): Promise<Readable> {
    const { tools, pool, stateDir } = this.parts
    const path = join(debugFolder(stateDir), randomUUID())
    const request = requestOf(path)
    if (process === 0) await tools.write(request)
    else await pool!.write(process, request)
    const file = createReadStream(path)
    await new Promise<void>((resolve, reject) => {
      file.once('open', () => resolve())
      file.once('error', reject)
    })
    await rm(path)
    return file
  }

  close(): void {
    clearTimeout(this.timer)
  }
}
