/**
 * `GET /api/svc/live/list/`: what the list of suppliers shows, which each open console polls. The rows are made once for all who
 * look, and only those are sent that have changed since the last answer.
 */
import { randomBytes } from 'node:crypto'
import * as z from 'zod'
import { oneAtATime } from '../../opd/base/one-at-a-time.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { listJson, withList } from '../http/long-json.ts'
import { type Caller, canSee } from '../http/roles.ts'
import {
  type AskLive,
  headOf,
  type LiveDeps,
  type LiveQuestion,
  nodesOf,
  type SupplierState,
  sendAnswer,
  statesOf,
} from './live.ts'
import { type Kept, type ListedIntegration, listSchema } from './live-schema.ts'

/** Milliseconds for which rows are used again. */
const lasts = 2000

/** A result that is used again for so many milliseconds. */
class ReusedResult<T> {
  private readonly produce: () => Promise<T>
  private readonly ms: number
  private last: Promise<T> | null = null
  private readAt = 0

  constructor(produce: () => Promise<T>, ms: number) {
    this.produce = produce
    this.ms = ms
  }

  /** A failure is not used again. */
  read(): Promise<T> {
    const now = performance.now()
    if (this.last !== null && now - this.readAt < this.ms) return this.last
    this.readAt = now
    const next = this.produce()
    next.catch(() => {
      this.last = null
    })
    this.last = next
    return next
  }
}

/**
 * The same result for calls within so many milliseconds.
 *
 * @param read is called once for all calls of that time; a failure is shared, too
 * @param ms milliseconds
 */
export function reused<T>(read: () => Promise<T>, ms: number): () => Promise<T> {
  const result = new ReusedResult(read, ms)
  return () => result.read()
}

interface ListRow {
  account: string | null
  /** JSON */
  text: string
  /** The number of the run that changed it last. */
  run: number
}

/** Digits that a screen shows, so that a row changes only if something else is shown. */
const digits = (value: number, most: number) => Number(value.toPrecision(most))

const keptOf = (kept: Kept | null): Kept | null =>
  kept && {
    ...kept,
    ...{ at: digits(kept.at, 4), lower: digits(kept.lower, 4), upper: digits(kept.upper, 4) },
  }

function listed({ shown }: SupplierState): ListedIntegration {
  const { no_bid = 0, timeout = 0, upstream_error = 0 } = shown.requests
  return {
    ...shown,
    modes: shown.modes.map(({ mode, kept, keptSpend }) => ({
      mode,
      kept: keptOf(kept),
      keptSpend: keptOf(keptSpend),
    })),
    requests: { no_bid, timeout, upstream_error },
    rate: digits(shown.rate, 3),
    p50: shown.p50 && digits(shown.p50, 3),
    p99: shown.p99 && digits(shown.p99, 3),
  }
}

/** The rows of the list, and what has changed in them. */
export class LiveList {
  private readonly deps: LiveDeps
  /** Of the rows: begins anew when one of them is gone, so that callers get them all. */
  private epoch = ''
  private run = 0
  private rows = new Map<string, ListRow>()
  private readAt = Number.NEGATIVE_INFINITY
  private holds: ReadonlySet<string> | null = null
  private nodes: Awaited<ReturnType<typeof nodesOf>> = null

  constructor(deps: LiveDeps) {
    this.deps = deps
  }

  private readonly read = oneAtATime(async () => {
    const { deps, rows } = this
    const holds = deps.holds()
    if (performance.now() - this.readAt < lasts && holds === this.holds) return
    this.holds = holds
    const nodes = await nodesOf(deps, undefined)
    this.nodes = nodes
    if (nodes === null) return
    const run = this.run + 1
    const found = new Set<string>()
    for (const state of statesOf(deps, nodes.counted, true, () => true)) {
      const { ssp, account } = state.shown
      found.add(ssp)
      const text = JSON.stringify(listed(state))
      if (rows.get(ssp)?.text !== text) rows.set(ssp, { account, text, run })
    }
    const before = rows.size
    for (const id of rows.keys()) if (!found.has(id)) rows.delete(id)
    if (rows.size < before || this.epoch === '') this.epoch = randomBytes(6).toString('hex')
    this.run = run
    this.readAt = performance.now()
  })

  /**
   * JSON; null: there is no such node.
   *
   * @param question rows that the caller may not see are left out; with a tag that is not known, all others are sent
   */
  answer({ caller, query: { node, since } }: LiveQuestion): Promise<string | null> {
    return node === undefined ? this.changes(caller, since) : this.ofNode(caller, node)
  }

  /** `since`: the tag of an earlier answer of this node. */
  private async changes(caller: Caller, since: string | undefined): Promise<string | null> {
    await this.read()
    const { deps, nodes, epoch, run } = this
    if (nodes === null) return null
    const [known, number] = since?.split('-') ?? []
    const isComplete = known !== epoch
    const after = isComplete ? 0 : Number(number)
    const rows: string[] = []
    for (const row of this.rows.values())
      if (row.run > after && canSee(caller, row.account)) rows.push(row.text)
    const head = {
      ...headOf(deps, caller, nodes, undefined),
      tag: `${epoch}-${run}`,
      whole: isComplete,
    }
    return withList(head, 'integrations', `[${rows.join()}]`)
  }

  /** All rows of one node. */
  private async ofNode(caller: Caller, node: string): Promise<string | null> {
    const { deps } = this
    const nodes = await nodesOf(deps, node)
    if (nodes === null) return null
    const sees = ({ account }: { account: string | null }) => canSee(caller, account)
    const rows = statesOf(deps, nodes.counted, false, sees).map(listed)
    const head = { ...headOf(deps, caller, nodes, node), tag: '', whole: true }
    return withList(head, 'integrations', await listJson(rows))
  }
}

const listQuery = z.strictObject({
  node: z.string().optional().describe('Only this node, and all its integrations'),
  since: z
    .string()
    .max(64)
    .optional()
    .describe('The `tag` of the last answer: only integrations that have changed since are sent'),
})

/**
 * The call that lists the suppliers, or those that have changed since the last call.
 *
 * @param ask answers on another thread
 */
export const liveListRoute = (ask: AskLive): Route => ({
  method: 'GET',
  path: '/api/svc/live/list/',
  id: 'liveList',
  tag: 'service',
  summary: 'What the list of suppliers shows, or what has changed in it',
  role: 'viewer',
  query: listQuery,
  answers: { 200: jsonAnswer('Integrations', listSchema) },
  problems: [404, 503],
  handler(request, reply) {
    const query = queryOf(listQuery, request)
    return sendAnswer(ask, { call: 'list', caller: request.caller!, query }, reply)
  },
})
