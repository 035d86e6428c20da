/**
 * The journal of what follows a committed row: it is taught, counted and streamed once, whatever response the caller saw.
 * The entry of a row is written in the transaction of the row, and deleted when everything has followed.
 *
 *   commit is answered ──▶ applied at once, from memory ──▶ streamed ──▶ deleted
 *   commit is not answered (timeout, lost connection) ──▶ the node reads its entries and applies those that it did not
 *   the node ends ──▶ another node, or its next start, takes its entries over
 *
 * `applied` marks entries that are only to be streamed: those of a time when the event log was away.
 */
import { randomBytes } from 'node:crypto'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Log } from '../../opd/base/log.ts'
import { shareRun } from '../../opd/base/one-at-a-time.ts'
import { json, jsonMember, jsonRows } from './ledger-input.ts'
import { clockOf, type LedgerRow, ledgerTable, type Tables } from './tables.ts'

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
}

interface Batch {
  /** Outcomes to be streamed; empty: none is left. */
  waiting: readonly Outcome[]
  /** Whether the entries are marked as applied. */
  marked: boolean
}

/** Milliseconds. */
const every = 250
const aliveEvery = 2000
const deadAfter = 30_000
const doubtFor = 60_000
const closeTimeout = 3000
/** Batches of one statement, entries that are taken over at a time, and outcomes of one request to the event log. */
const [batchesAtOnce, takenAtOnce, streamedAtOnce] = [500, 2000, 500]
/** Outcomes that wait for the event log in memory. More are only in the database, and read later. */
const maxWaiting = 20_000

interface OutcomesDeps {
  db: Kysely<Tables>
  postgres: boolean
  now: () => number
  log: Log
}

export class Outcomes {
  /** Identifies this process. */
  readonly node = randomBytes(9).toString('base64url')
  /** Outcomes that were applied as the journal had them: of commits without a response, or of processes that ended. */
  readonly counts = { recovered: 0 }
  private readonly deps: OutcomesDeps
  private readonly inFlight = new Set<string>()
  private readonly batches = new Map<string, Batch>()
  private consumer: OutcomeConsumer | null = null
  private count = 0
  private doubtUntil = Number.NEGATIVE_INFINITY
  /** More outcomes wait in the database than in memory. */
  private spilled = false
  private aliveAt = Number.NEGATIVE_INFINITY
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
    if (outcomes.length > 0) this.add(batch, outcomes, false)
  }

  /** Nothing was committed. */
  refused(batch: string): void {
    this.inFlight.delete(batch)
  }

  /** The commit was not answered. It may be on disk, or still come. */
  unanswered(batch: string): void {
    this.inFlight.delete(batch)
    this.doubtUntil = performance.now() + doubtFor
  }

  /** Reads the journal soon, because an entry was written that is not in memory. */
  look(): void {
    this.doubtUntil = Math.max(this.doubtUntil, performance.now() + 4 * every)
  }

  /** Inserts entries, within the transaction of their rows. */
  async insert(trx: Kysely<Tables>, batch: string, entries: readonly Entry[], applied = false) {
    if (entries.length === 0) return
    const { postgres } = this.deps
    const member = (at: number, type = 'text') => jsonMember(postgres, at, type)
    const rows = entries.map(({ kind, decision, event, body, at }) => [
      ...[kind, decision, event, body],
      Math.floor(at),
    ])
    await sql`insert into outcomes (batch, place, node, applied, at, kind, decision, event, body)
      select ${batch}, n, ${this.node}, ${Number(applied)}, ${member(4, 'bigint')}, ${member(0)},
        ${member(1)}, ${member(2)}, ${member(3)}
      from ${jsonRows(postgres, json(rows))}`.execute(trx)
  }

  /** Begins to work on the journal. A process on SQLite is alone, so all entries are its own. */
  async follow(consumer: OutcomeConsumer): Promise<void> {
    this.consumer = consumer
    this.doubtUntil = performance.now() + doubtFor
    await this.run()
    this.timer = setInterval(() => {
      void this.run()
      // apart, because an event log that is away would delay the rest
      void this.send()
    }, every).unref()
  }

  /** Does what is due. Failures are logged once; the next run tries again. */
  readonly run = shareRun(async () => {
    try {
      await this.takeOver()
      await this.read()
      await this.settle()
      if (this.lost) this.deps.log.info({}, 'what follows a notice is up to date again')
      this.lost = false
    } catch (error) {
      if (!this.lost)
        this.deps.log.warn(
          { err: (error as Error).message },
          'what follows a notice was not stored and will be retried',
        )
      this.lost = true
    }
  })

  /** Streams and deletes what it can. Entries that are left are taken over by any process. */
  async close(): Promise<void> {
    if (this.timer === null) return
    clearInterval(this.timer)
    const done = (async () => {
      await this.run()
      await this.send()
      await this.run()
      const { db } = this.deps
      const { node } = this
      if (this.batches.size === 0 && !this.spilled)
        await sql`delete from outcome_nodes where node = ${node}`.execute(db)
      // another node takes over at once
      else await sql`update outcome_nodes set alive = 0 where node = ${node}`.execute(db)
    })()
    const late = new Promise<void>((resolve) => setTimeout(resolve, closeTimeout).unref())
    await Promise.race([done, late]).catch((error: Error) =>
      this.deps.log.info({ err: error.message }, 'the journal of notices was not closed'),
    )
  }

  private add(batch: string, outcomes: readonly Outcome[], marked: boolean): void {
    const streams = this.consumer?.stream != null
    this.batches.set(batch, { waiting: streams ? outcomes : [], marked })
  }

  /** Takes over the entries of processes that have ended. */
  private async takeOver(): Promise<void> {
    const { db, postgres, now } = this.deps
    if (performance.now() - this.aliveAt < aliveEvery) return
    const isFirst = this.aliveAt === Number.NEGATIVE_INFINITY
    const clock = clockOf(postgres, now)
    // a process on SQLite is alone
    if (isFirst && !postgres) await sql`delete from outcome_nodes`.execute(db)
    await sql`insert into outcome_nodes (node, alive) values (${this.node}, ${clock})
      on conflict (node) do update set alive = excluded.alive`.execute(db)
    if (isFirst) await this.takeAll(sql`node not in (select node from outcome_nodes)`)
    const { rows } = await sql<{ node: string }>`select node from outcome_nodes
      where alive < ${clock} - ${sql.lit(deadAfter)} limit 1`.execute(db)
    for (const { node } of rows) {
      await this.takeAll(sql`node = ${node}`)
      await sql`delete from outcome_nodes
        where node = ${node} and alive < ${clock} - ${sql.lit(deadAfter)}`.execute(db)
    }
    this.aliveAt = performance.now()
  }

  /** Takes over entries, some at a time, so that no statement takes long. */
  private async takeAll(condition: RawBuilder<unknown>): Promise<void> {
    const { db } = this.deps
    for (let taken = takenAtOnce; taken === takenAtOnce; ) {
      const { numAffectedRows = 0n } = await sql`update outcomes set node = ${this.node}
        where (node, batch, place) in (
          select node, batch, place from outcomes where ${condition} limit ${sql.lit(takenAtOnce)})`.execute(
        db,
      )
      taken = Number(numAffectedRows)
      if (taken > 0) this.look()
    }
  }

  /** Reads the entries of this process that are not in memory: whole batches, in their order. */
  private async read(): Promise<void> {
    const { consumer } = this
    const isDue = performance.now() < this.doubtUntil || this.spilled
    if (consumer === null || !isDue || this.waiting >= maxWaiting) return
    const { db, postgres } = this.deps
    const known = json([...this.inFlight, ...this.batches.keys()].map((batch) => [batch]))
    const ledger = sql.table(ledgerTable(postgres))
    const { rows } = await sql<
      LedgerRow & {
        batch: string
        applied: number
        kind: Outcome['kind']
        body: string
        of: string
        on: string
        told: number
      }
    >`select l.*, o.batch, o.applied, o.kind, o.body, o.decision as "of", o.event as "on", o.at as told
      from outcomes as o left join ${ledger} as l on l.decision = o.decision and l.event = o.event
      where o.node = ${this.node} and o.batch in (
        select distinct batch from outcomes where node = ${this.node} and batch not in (
          select ${jsonMember(postgres, 0, 'text')} from ${jsonRows(postgres, known)})
        limit ${sql.lit(batchesAtOnce)})
      order by o.batch, o.place`.execute(db)
    const found = new Map<string, { outcomes: Outcome[]; applied: boolean }>()
    for (const { batch, applied, kind, body, of, on, told, ...row } of rows) {
      // a commit that is answered meanwhile is not in doubt
      if (this.inFlight.has(batch) || this.batches.has(batch)) continue
      const outcomes = found.get(batch)?.outcomes ?? []
      const isJoined = row.decision !== null
      outcomes.push({
        kind,
        body,
        decision: of,
        event: on,
        row: isJoined ? row : null,
        at: Number(told),
      })
      found.set(batch, { outcomes, applied: Number(applied) === 1 })
    }
    for (const [batch, { outcomes, applied }] of found) {
      if (!applied) {
        for (const outcome of outcomes) this.apply(consumer, outcome)
      }
      this.add(batch, outcomes, applied)
    }
    this.spilled = found.size === batchesAtOnce
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
        if (some.length === 0) return
        await stream(outcomes)
        for (const batch of some) batch.waiting = []
      }
    } catch {
      // the stream has counted and logged it; the outcomes wait
    }
  })

  /** Deletes the entries of which nothing is left, and marks those that only wait for the event log. */
  private async settle(): Promise<void> {
    const { db, postgres } = this.deps
    const all = [...this.batches]
    const batchesOf = (names: readonly string[]) =>
      sql`(select ${jsonMember(postgres, 0, 'text')} from ${jsonRows(postgres, json(names.map((name) => [name])))})`
    const inParts = async (
      names: readonly string[],
      work: (part: readonly string[]) => Promise<void>,
    ) => {
      for (let from = 0; from < names.length; from += batchesAtOnce)
        await work(names.slice(from, from + batchesAtOnce))
    }
    const done = all.filter(([, { waiting }]) => waiting.length === 0).map(([name]) => name)
    await inParts(done, async (part) => {
      await sql`delete from outcomes where node = ${this.node} and batch in ${batchesOf(part)}`.execute(
        db,
      )
      for (const name of part) this.batches.delete(name)
    })
    const waiting = all.filter(([, batch]) => batch.waiting.length > 0)
    await inParts(
      waiting.filter(([, { marked }]) => !marked).map(([name]) => name),
      async (part) => {
        await sql`update outcomes set applied = 1
          where node = ${this.node} and batch in ${batchesOf(part)}`.execute(db)
        for (const name of part) this.batches.get(name)!.marked = true
      },
    )
    let left = 0
    for (const [name, batch] of waiting) {
      left += batch.waiting.length
      if (left <= maxWaiting) continue
      this.batches.delete(name)
      this.spilled = true
    }
  }
}

/** Deletes some of the entries of before `before`; whether there may be more. */
export async function deleteOutcomes(db: Kysely<Tables>, before: number): Promise<boolean> {
  const { numAffectedRows } = await sql`delete from outcomes where (node, batch, place) in (
    select node, batch, place from outcomes where at < ${before} limit ${sql.lit(takenAtOnce)})`.execute(
    db,
  )
  return Number(numAffectedRows) === takenAtOnce
}
