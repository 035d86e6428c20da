/**
 * The journal of what follows a committed row: the model is trained, the win is counted and streamed once, whatever response the caller saw.
 * The entry of a row is written in the transaction of the row, and deleted when everything has followed. Until then another
 * process may repeat it, so models that contain it are published when it is settled (`settleApplied`). What they have learned
 * and not sent is stored in the transaction that settles it (unsent-deltas.ts).
 *
 *   commit is answered ──▶ applied at once, from memory ──▶ streamed ──▶ added to the sums and deleted
 *   commit is not answered (timeout, lost connection) ──▶ the node reads its entries and applies those that it did not
 *   the node ends ──▶ another node, or its next start, takes its entries over
 *
 * `applied` marks entries that are only to be streamed: those of a time when the event log was away. A win is added to the
 * stored sums in the transaction that marks or deletes its entry, so it is added once, whatever became of the process.
 */
import { randomBytes } from 'node:crypto'
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { oneAtATime, shareRun } from '../../opd/base/one-at-a-time.ts'
import type { UnsentDeltas } from '../../opd/state/model-store.ts'
import { type ArmDay, addArmDays, armDayOfWin } from './arm-days.ts'
import { json, jsonMember, jsonRows } from './ledger-input.ts'
import { clockOf, type LedgerRow, ledgerTable, type Tables } from './tables.ts'
import { StoredDeltas } from './unsent-deltas.ts'

export interface Outcome {
  kind: 'notice' | 'loss' | 'void'
  decision: string
  event: string
  /** The row of the ledger; null: it was replaced, or the outcome is a loss. */
  row: LedgerRow | null
  /** What the row does not say, as JSON. */
  body: string
  at: number
}

/** An entry to be written, in the transaction of its row. */
type Entry = Omit<Outcome, 'row'>

export interface OutcomeConsumer {
  /** Applies an outcome that no process has applied. It throws if the outcome cannot be read. */
  apply(outcome: Outcome): void
  /** Resolves when the event log has the outcomes; null: there is no event log. */
  stream: ((outcomes: readonly Outcome[]) => Promise<void>) | null
  /** What the models have learned and not sent yet; absent or null: there is no other node to send it to. */
  deltas?: UnsentDeltas | null
  /** Sums of wins that this process has applied, and that are not stored yet. */
  counted?(wins: readonly ArmDay[]): void
  /** The same sums, when they are stored, or when another process stores them. */
  stored?(wins: readonly ArmDay[]): void
}

interface Batch {
  /** Outcomes to be streamed; empty: none is left. */
  waiting: readonly Outcome[]
  /** Whether the entries are marked as applied, and their sums stored. */
  marked: boolean
  /** What it adds to the stored sums. */
  wins: readonly ArmDay[]
}

/** Ways to settle the entries of batches; both return the batches that were not marked before. */
const settling = {
  delete: (entries: RawBuilder<unknown>) => sql<{ batch: string; applied: number }>`
    delete from outcomes where ${entries} returning batch, applied`,
  mark: (entries: RawBuilder<unknown>) => sql<{ batch: string; applied: number }>`
    update outcomes set applied = 1 where ${entries} and applied = 0 returning batch, 0 as applied`,
}

/** Milliseconds. */
const every = 250
/** If models are sent to other nodes, the exchange settles the journal more often: each time adds an update to their stream. */
const settleEvery = 2000
const aliveEvery = 2000
const deadAfter = 30_000
const doubtFor = 60_000
const closeTimeout = 3000
/** A longer time between two renewals of a node's row is an interruption: the others may not have renewed theirs either. */
const interruptedAfter = 10_000
/** Batches of one statement, entries that are taken over or read at a time, and outcomes of one request to the event log. */
const [batchesAtOnce, entriesAtOnce, streamedAtOnce] = [500, 2000, 500]
/** Outcomes that wait for the event log in memory. More are only in the database, and read later. */
const maxWaiting = 20_000

interface OutcomesDeps {
  db: Kysely<Tables>
  postgres: boolean
  now: () => number
  /** Milliseconds of a clock that is never set. */
  monotonic: () => number
  log: Log
}

export class Outcomes {
  /** Identifies this process. */
  readonly node = randomBytes(9).toString('base64url')
  /** Outcomes that were applied as the journal had them: of commits without a response, or of processes that ended. */
  readonly counts = { recovered: 0 }
  private readonly deps: OutcomesDeps
  private readonly inFlight = new Set<string>()
  private readonly deltas = new StoredDeltas(this.node)
  private readonly batches = new Map<string, Batch>()
  private consumer: OutcomeConsumer | null = null
  private count = 0
  /** The first complete read that begins after this ends the doubt; null: there is none. */
  private doubtUntil: number | null = null
  /** More outcomes wait in the database than in memory. */
  private spilled = false
  /** When the row of this process was last renewed, and since when without an interruption. */
  private aliveAt = Number.NEGATIVE_INFINITY
  private aliveSince = Number.NEGATIVE_INFINITY
  /** Another process may have taken over entries that are in memory. */
  private unconfirmed = false
  private streamFailed = false
  private settledAt = Number.NEGATIVE_INFINITY
  /** The next run takes the updates of the models, and settles all that was applied; otherwise what `covered` has. */
  private takes = false
  /** Batches that trained the models before their updates were last taken. */
  private covered: ReadonlySet<string> = new Set()
  private closing = false
  private closed = false
  private lost = false
  private timer: NodeJS.Timeout | null = null

  constructor(deps: OutcomesDeps) {
    this.deps = deps
  }

  /** Outcomes that wait for the event log in memory. */
  get waiting(): number {
    let total = 0
    for (const { waiting } of this.batches.values()) total += waiting.length
    return total
  }

  /** The id of a commit, whose entries are of this process until it is ended. */
  begin(): string {
    const batch = `${this.node}.${++this.count}`
    this.inFlight.add(batch)
    return batch
  }

  /** The commit was answered: its callers apply the outcomes in this turn of the event loop. */
  committed(batch: string, outcomes: readonly Outcome[]): void {
    this.inFlight.delete(batch)
    if (outcomes.length > 0) this.addBatch(batch, outcomes, false)
  }

  /** Nothing was committed. */
  refused(batch: string): void {
    this.inFlight.delete(batch)
  }

  /** The commit was not answered. It may be on disk, or still come. */
  unanswered(batch: string): void {
    this.inFlight.delete(batch)
    this.look()
  }

  /** Reads the journal for some time, because there is, or may yet be, an entry that is not in memory. */
  look(): void {
    this.doubtUntil = this.deps.monotonic() + doubtFor
  }

  /** Inserts entries, within the transaction of their rows. */
  async insert(trx: Kysely<Tables>, batch: string, entries: readonly Entry[], applied = false) {
    if (entries.length === 0) return
    const { postgres } = this.deps
    const member = (index: number, type = 'text') => jsonMember(postgres, index, type)
    const rows = entries.map(({ kind, decision, event, body, at: time }) => [
      ...[kind, decision, event, body],
      Math.floor(time),
    ])
    await sql`insert into outcomes (batch, place, node, applied, at, kind, decision, event, body)
      select ${batch}, n, ${this.node}, ${Number(applied)}, ${member(4, 'bigint')}, ${member(0)},
        ${member(1)}, ${member(2)}, ${member(3)}
      from ${jsonRows(postgres, json(rows))}`.execute(trx)
  }

  /**
   * Begins to work on the journal; resolves after the first run. A process on SQLite is alone, so all entries are its own.
   *
   * @param consumer applies the outcomes, from now on until the journal is closed
   */
  async follow(consumer: OutcomeConsumer): Promise<void> {
    this.consumer = consumer
    this.look()
    await this.run()
    this.timer = setInterval(() => {
      if (this.isSettleDue()) void this.run()
      else if (this.doubtUntil !== null) void this.work()
      // apart, because an event log that is away would delay the rest
      void this.send()
    }, every).unref()
  }

  private isSettleDue(): boolean {
    const isExchanged = this.consumer?.deltas != null
    return !isExchanged || this.deps.monotonic() - this.settledAt >= settleEvery
  }

  /** Does what is due by now. Failures are logged once; the next run tries again. */
  run(): Promise<void> {
    this.takes = true
    return this.work()
  }

  private readonly work = oneAtATime(async () => {
    try {
      if (await this.renew()) await this.takeOver()
      await this.read()
      await this.adoptDeltas()
      await this.settle()
      if (this.lost) this.deps.log.info({}, 'what follows a notice is up to date again')
      this.lost = false
    } catch (error) {
      // what is in doubt may be on disk when the database is back
      if (this.doubtUntil !== null) this.look()
      if (!this.lost)
        this.deps.log.warn(
          { err: (error as Error).message },
          'what follows a notice was not stored and will be retried',
        )
      this.lost = true
    }
  })

  /**
   * Settles what was applied before the call, in which the caller has taken the updates of the models. Returns whether all of
   * it is settled; what is not may be applied again by another process, if this one ends.
   */
  async settleApplied(): Promise<boolean> {
    const applied = [...this.batches].filter(([, { marked }]) => !marked)
    this.covered = new Set(applied.map(([name]) => name))
    if (applied.length > 0) await this.work()
    return applied.every(([, { marked }]) => marked)
  }

  /** Leaves the entries of this process, which follows no journal, to the processes that do. */
  async handOver(): Promise<void> {
    this.batches.clear()
    await sql`insert into outcome_nodes (node, alive) values (${this.node}, 0)
      on conflict (node) do update set alive = 0`.execute(this.deps.db)
  }

  /** Streams and deletes what it can. Entries that are left are taken over by any process. */
  async close(): Promise<void> {
    if (this.timer === null) return
    clearInterval(this.timer)
    this.closing = true
    const done = (async () => {
      await this.run()
      await this.send()
      await this.run()
      const { db } = this.deps
      const { node } = this
      if (this.batches.size === 0 && !this.spilled && this.deltas.isEmpty)
        await sql`delete from outcome_nodes where node = ${node}`.execute(db)
      // another node takes over at once
      else await sql`update outcome_nodes set alive = 0 where node = ${node}`.execute(db)
    })()
    const late = new Promise<void>((resolve) => setTimeout(resolve, closeTimeout).unref())
    await Promise.race([done, late]).catch((error: Error) =>
      this.deps.log.info({ err: error.message }, 'the journal of notices was not closed'),
    )
    this.closed = true
  }

  private addBatch(batch: string, outcomes: readonly Outcome[], marked: boolean): void {
    const streams = this.consumer?.stream != null
    const wins = marked ? [] : outcomes.flatMap(winOf)
    this.batches.set(batch, { waiting: streams ? outcomes : [], marked, wins })
    this.consumer?.counted?.(wins)
  }

  /** Renews the row of this process if that is due; whether it was. */
  private async renew(): Promise<boolean> {
    const { db, postgres, now, monotonic } = this.deps
    const began = monotonic()
    if (began - this.aliveAt < aliveEvery) return false
    const isFirst = this.aliveAt === Number.NEGATIVE_INFINITY
    const clock = clockOf(postgres, now)
    // a process on SQLite is alone
    if (isFirst && !postgres) await sql`delete from outcome_nodes`.execute(db)
    const { numAffectedRows } = await sql`update outcome_nodes set alive = ${clock}
      where node = ${this.node} and alive >= ${clock} - ${sql.lit(deadAfter)}`.execute(db)
    if (Number(numAffectedRows) === 0) {
      this.unconfirmed = true
      await sql`insert into outcome_nodes (node, alive) values (${this.node}, ${clock})
        on conflict (node) do update set alive = excluded.alive`.execute(db)
    }
    if (this.unconfirmed) await this.forgetTaken()
    this.unconfirmed = false
    if (isFirst)
      await sql`insert into outcome_nodes (node, alive)
        select node, 0 from (select node from outcomes union select node from unsent_deltas) as left_over
        where node not in (select node from outcome_nodes)
        on conflict (node) do nothing`.execute(db)
    if (began - this.aliveAt > interruptedAfter) this.aliveSince = began
    this.aliveAt = began
    return true
  }

  /** Removes the batches from memory that another process has taken over. */
  private async forgetTaken(): Promise<void> {
    await inParts([...this.batches.keys()], async (part) => {
      const { rows } = await sql<{ batch: string }>`select distinct batch from outcomes
        where node = ${this.node} and batch in ${this.namesOf(part)}`.execute(this.deps.db)
      const kept = new Set(rows.map(({ batch }) => batch))
      for (const name of part) {
        const batch = this.batches.get(name)
        if (kept.has(name) || batch === undefined) continue
        this.batches.delete(name)
        if (!batch.marked) this.consumer?.stored?.(batch.wins)
      }
    })
  }

  /**
   * Takes over the entries of processes that have ended. After the database was away, no process has renewed its row, so
   * only one that has long renewed its own decides that another has ended. A process that was closed says so, with 0.
   */
  private async takeOver(): Promise<void> {
    if (this.closing) return
    const { db, postgres, now } = this.deps
    const since = sql`${clockOf(postgres, now)} - ${sql.lit(deadAfter)}`
    const ended =
      this.aliveAt - this.aliveSince >= deadAfter ? sql`alive < ${since}` : sql`alive = 0`
    const { rows } = await sql<{ node: string }>`select node from outcome_nodes
      where ${ended}`.execute(db)
    for (const { node } of rows) while (await this.takeSome(node, ended)) this.look()
  }

  /**
   * Takes over whole batches, some at a time, so that no statement takes long; whether there may be more. The row of the
   * other process is locked meanwhile: one that returns sees what it still has.
   */
  private takeSome(node: string, ended: RawBuilder<unknown>): Promise<boolean> {
    return this.deps.db.transaction().execute(async (trx) => {
      const locked = await sql`update outcome_nodes set alive = alive
        where node = ${node} and ${ended}`.execute(trx)
      if (Number(locked.numAffectedRows) === 0) return false
      const taken = await sql`update outcomes set node = ${this.node}
        where node = ${node} and batch in (select batch from outcomes
          where node = ${node} order by batch limit ${sql.lit(entriesAtOnce)})`.execute(trx)
      if (Number(taken.numAffectedRows) > 0) return true
      await this.deltas.takeOver(trx, node)
      await sql`delete from outcome_nodes where node = ${node}`.execute(trx)
      return false
    })
  }

  /** A list of batches, within a statement. */
  private namesOf(names: readonly string[]): RawBuilder<unknown> {
    const { postgres } = this.deps
    const rows = json(names.map((name) => [name]))
    return sql`(select ${jsonMember(postgres, 0, 'text')} from ${jsonRows(postgres, rows)})`
  }

  /**
   * Reads the entries of this process that are not in memory: whole batches, in their order. While the event log is away,
   * those that only wait for it stay in the database.
   */
  private async read(): Promise<void> {
    const { consumer } = this
    const streams = this.waiting < maxWaiting / 2 && !this.streamFailed
    if (consumer === null || (this.doubtUntil === null && !(this.spilled && streams))) return
    const { db, postgres, monotonic } = this.deps
    const began = monotonic()
    const known = this.namesOf([...this.inFlight, ...this.batches.keys()])
    const ledger = sql.table(ledgerTable(postgres))
    const { rows } = await sql<
      LedgerRow & {
        batch: string
        has_followed: number
        kind: Outcome['kind']
        body: string
        of: string
        on: string
        notified: number
      }
    >`select l.*, o.batch, o.applied as has_followed, o.kind, o.body, o.decision as "of", o.event as "on", o.at as notified
      from outcomes as o left join ${ledger} as l on l.decision = o.decision and l.event = o.event
      where o.node = ${this.node} and o.batch in (
        select batch from outcomes where node = ${this.node} and batch not in ${known}
          ${streams ? sql`` : sql`and applied = 0`}
        order by batch limit ${sql.lit(entriesAtOnce)})
      order by o.batch, o.place`.execute(db)
    // the models are closed next
    if (this.closed) return
    const found = new Map<string, { outcomes: Outcome[]; applied: boolean }>()
    for (const { batch, has_followed, kind, body, of: ofValue, on, notified, ...row } of rows) {
      // a commit that is answered meanwhile is not in doubt
      if (this.inFlight.has(batch) || this.batches.has(batch)) continue
      const outcomes = found.get(batch)?.outcomes ?? []
      const isJoined = row.decision !== null
      outcomes.push({
        kind,
        body,
        decision: ofValue,
        event: on,
        row: isJoined ? row : null,
        at: Number(notified),
      })
      found.set(batch, { outcomes, applied: Number(has_followed) === 1 })
    }
    for (const [batch, { outcomes, applied }] of found) {
      if (!applied) {
        for (const outcome of outcomes) this.apply(consumer, outcome)
      }
      this.addBatch(batch, outcomes, applied)
    }
    const isComplete = rows.length < entriesAtOnce
    this.spilled = !(streams && isComplete)
    if (isComplete && this.doubtUntil !== null && began >= this.doubtUntil) this.doubtUntil = null
  }

  /** Sends the updates of a process that has ended. */
  private async adoptDeltas(): Promise<void> {
    const deltas = this.consumer?.deltas
    if (deltas != null) deltas.adopt(await this.deltas.readTakenOver(this.deps.db))
  }

  private apply(consumer: OutcomeConsumer, outcome: Outcome): void {
    try {
      consumer.apply(outcome)
      this.counts.recovered++
    } catch (error) {
      const { kind, decision } = outcome
      const { message: err } = error as Error
      this.deps.log.error({ err, kind, decision }, 'an entry of the journal cannot be read')
    }
  }

  /** Streams what waits. */
  private readonly send = shareRun(async () => {
    const stream = this.consumer?.stream ?? null
    if (stream === null) return
    try {
      for (;;) {
        const some: Batch[] = []
        const outcomes: Outcome[] = []
        for (const batch of this.batches.values()) {
          if (batch.waiting.length === 0) continue
          if (outcomes.length > 0 && outcomes.length + batch.waiting.length > streamedAtOnce) break
          some.push(batch)
          outcomes.push(...batch.waiting)
        }
        // another process may have taken over what waits
        if (this.deps.monotonic() - this.aliveAt >= deadAfter) return
        if (some.length > 0) await stream(outcomes)
        this.streamFailed = false
        if (some.length === 0) return
        for (const batch of some) batch.waiting = []
      }
    } catch {
      this.streamFailed = true
      // the stream has counted and logged it; the outcomes wait
    }
  })

  /**
   * Deletes the entries of which nothing is left, and marks those that only wait for the event log. It stores what the models
   * have learned and not sent in the same transaction, so that what was trained with an entry that is gone can be sent.
   */
  private async settle(): Promise<void> {
    const { deps, consumer, deltas } = this
    const takes = this.takes || consumer?.deltas == null
    this.takes = false
    const all = [...this.batches].filter(
      ([name, { marked }]) => takes || marked || this.covered.has(name),
    )
    const done = all.filter(([, { waiting }]) => waiting.length === 0).map(([name]) => name)
    const waiting = all.filter(([, batch]) => batch.waiting.length > 0)
    const unmarked = waiting.filter(([, { marked }]) => !marked).map(([name]) => name)
    const settles = done.length > 0 || unmarked.length > 0
    const unsent = consumer?.deltas?.unsent(takes && settles) ?? []
    if (settles || deltas.hasSent(unsent)) {
      const commits = await deps.db.transaction().execute(async (trx) => {
        const isWritten = await deltas.write(trx, unsent, deps.now())
        await inParts(done, (part) => this.settleBatches(trx, part, 'delete'))
        await inParts(unmarked, (part) => this.settleBatches(trx, part, 'mark'))
        return isWritten
      })
      commits()
    }
    for (const name of done) this.settled(name, 'delete')
    for (const name of unmarked) this.settled(name, 'mark')
    this.settledAt = deps.monotonic()
    let left = 0
    for (const [name, batch] of waiting) {
      left += batch.waiting.length
      if (left <= maxWaiting) continue
      this.batches.delete(name)
      this.spilled = true
    }
  }

  /**
   * Settles the entries of batches, and adds their wins to the stored sums: those of the batches that it finds unsettled. So a
   * try whose commit was not answered is repeated without harm.
   */
  private async settleBatches(
    trx: Transaction<Tables>,
    names: readonly string[],
    how: keyof typeof settling,
  ): Promise<void> {
    const entries = sql`node = ${this.node} and batch in ${this.namesOf(names)}`
    const { rows } = await settling[how](entries).execute(trx)
    const found = new Set(
      rows.filter(({ applied }) => Number(applied) === 0).map(({ batch }) => batch),
    )
    const wins = [...found].flatMap((name) => this.batches.get(name)?.wins ?? [])
    await addArmDays(trx, wins)
  }

  /** The entries of a batch are settled. */
  private settled(name: string, how: keyof typeof settling): void {
    const batch = this.batches.get(name)!
    if (!batch.marked) this.consumer?.stored?.(batch.wins)
    if (how === 'delete') this.batches.delete(name)
    Object.assign(batch, { marked: true, wins: [] })
  }
}

/** What an attributed win adds to the stored sums. It may have been voided since, which has subtracted it. */
const winOf = ({ kind, row }: Outcome): ArmDay[] =>
  kind === 'notice' && (row?.status === 'attributed' || row?.status === 'voided')
    ? [armDayOfWin(row) ?? []].flat()
    : []

async function inParts(
  names: readonly string[],
  work: (part: readonly string[]) => Promise<void>,
): Promise<void> {
  for (let from = 0; from < names.length; from += batchesAtOnce)
    await work(names.slice(from, from + batchesAtOnce))
}

/** Deletes some of the entries of before `before`; whether there may be more. */
export async function deleteOutcomes(db: Kysely<Tables>, before: number): Promise<boolean> {
  const { numAffectedRows } = await sql`delete from outcomes where (node, batch, place) in (
    select node, batch, place from outcomes where at < ${before} limit ${sql.lit(entriesAtOnce)})`.execute(
    db,
  )
  return Number(numAffectedRows) === entriesAtOnce
}
