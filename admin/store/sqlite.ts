/** A kysely dialect over node:sqlite on a worker thread, without native code to build. */
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { shareRun } from '../../opd/base/one-at-a-time.ts'
import { StoreError, storeErrorOf } from './errors.ts'
import type { Fault, Opened, Opening, WorkerRequest, WorkerResponse } from './sqlite-thread.ts'

interface SqliteOptions {
  /** Creates the file if it does not exist. */
  create: boolean
  /** True for the service; a file has only one. */
  owns: boolean
  /** Called for each error of the file itself: it cannot be read or written, or is corrupt. */
  damaged?: () => void
}

interface Waiting {
  resolve(result: QueryResult<unknown>): void
  reject(error: Error): void
}

/**
 * The only parameter of a statement that the worker executes for each of these rows, with the values of a row as its parameters:
 * for all rows, or none. `json_each` takes 1.5 times as long.
 */
export class EachRow {
  /** An array of arrays: this thread takes less time for a text than for objects. */
  readonly json: string

  constructor(rows: readonly object[]) {
    this.json = JSON.stringify(rows.map((row) => Object.values(row)))
  }
}

/** SQLite's IOERR, CORRUPT and NOTADB. */
const damage = [10, 11, 26]

const failureOf = ({ error, result }: Fault): Error =>
  result === null
    ? new Error(error)
    : storeErrorOf(Object.assign(new Error(error), { code: `SQLITE_${result}` }))

/**
 * Requests to the worker and their responses. If the worker ends, all of them fail, and the next request starts
 * another worker.
 */
class WorkerConnection implements DatabaseConnection {
  private readonly opening: Opening
  private readonly damaged: () => void
  private worker: Worker | null = null
  private readonly waiting = new Map<number, Waiting>()
  private next = 0
  private closing = false

  constructor(file: string, { create, owns, damaged = () => {} }: SqliteOptions) {
    this.opening = { file, create, owns }
    this.damaged = damaged
  }

  private readonly start = shareRun(async (): Promise<void> => {
    const name = import.meta.url.endsWith('.ts') ? './sqlite-thread.ts' : './sqlite-thread.js'
    const worker = new Worker(new URL(name, import.meta.url), { workerData: this.opening })
    const failed = (error: Error) => {
      if (this.worker === worker) this.worker = null
      for (const { reject } of this.waiting.values())
        reject(new StoreError('unavailable', `the database thread ended: ${error.message}`))
      this.waiting.clear()
    }
    worker.on('error', failed)
    worker.on('exit', (code) => failed(new Error(`exit ${code}`)))
    const [first] = (await Promise.race([
      once(worker, 'message'),
      once(worker, 'exit').then(([code]) => [{ error: `exit ${code}`, result: null }]),
    ])) as [Opened]
    if (first !== 'open') throw new StoreError('unavailable', first.error)
    // a later worker must not create a new file: the wins are in the one that is open now
    this.opening.create = false
    worker.on('message', (answer: WorkerResponse) => {
      const waiting = this.waiting.get(answer.id)
      this.waiting.delete(answer.id)
      if ('error' in answer) {
        if (damage.includes(answer.result ?? 0)) this.damaged()
        waiting?.reject(failureOf(answer))
      } else waiting?.resolve({ rows: answer.rows, numAffectedRows: BigInt(answer.changes) })
    })
    this.worker = worker
  })

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    if (this.closing) throw new StoreError('closed', 'the store is closed')
    if (this.worker === null) await this.start()
    const { worker } = this
    if (worker === null) throw new StoreError('unavailable', 'the database thread is gone')
    const id = this.next++
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve: resolve as Waiting['resolve'], reject })
      const [first] = parameters
      worker.postMessage(
        (first instanceof EachRow
          ? { id, sql, parameters: [], rows: first.json }
          : { id, sql, parameters }) as WorkerRequest,
      )
    })
  }

  // biome-ignore lint/correctness/useYield: the interface requires a generator, which SQLite does not support
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new StoreError('unavailable', 'SQLite results are not streamed')
  }

  async close(): Promise<void> {
    this.closing = true
    const { worker } = this
    if (worker === null) return
    const gone = once(worker, 'exit')
    worker.postMessage('close')
    await gone
  }
}

/**
 * Milliseconds that a caller waits for the connection: another program may lock the file, up to 5 s for each request.
 */
const longestWait = 5000

/** One connection that callers use in turn, so that statements of others never run within a transaction. */
class SqliteDriver implements Driver {
  private readonly connection: WorkerConnection
  private previous: Promise<void> = Promise.resolve()
  private done: (() => void) | null = null

  constructor(file: string, options: SqliteOptions) {
    this.connection = new WorkerConnection(file, options)
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    const before = this.previous
    let release = () => {}
    let timer: NodeJS.Timeout | undefined
    this.previous = new Promise((resolve) => {
      release = resolve
    })
    const timedOut = new Promise<'timedOut'>((resolve) => {
      timer = setTimeout(resolve, longestWait, 'timedOut')
    })
    if ((await Promise.race([before, timedOut])) === 'timedOut') {
      void before.then(release)
      throw new StoreError('overloaded', 'the database thread is busy')
    }
    clearTimeout(timer)
    this.done = release
    return this.connection
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'))
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'))
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('rollback'))
  }

  async releaseConnection(): Promise<void> {
    this.done?.()
  }

  destroy(): Promise<void> {
    return this.connection.close()
  }
}

export function sqliteDialect(file: string, options: SqliteOptions): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new SqliteDriver(file, options),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  }
}
