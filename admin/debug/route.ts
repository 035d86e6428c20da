/** `/api/svc/debug/`: what an operator asks of the node that handles the request while it runs. */
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Log } from '../../opd/base/log.ts'
import { type Authenticate, jsonAnswer, jsonCalls, queryOf, type Route } from '../http/call.ts'
import { bodyOf } from '../http/json-body.ts'
import { BusyError, Problem } from '../http/problem.ts'
import { authorOf, ofAllAccounts } from '../management/access.ts'
import { audit } from '../store/audit.ts'
import type { Store } from '../store/index.ts'
import type { DebugAccess } from './access.ts'

interface DebugDeps {
  debug: DebugAccess
  store: Store
  now: () => number
  log: Log
}

/** Bytes. */
const bodyLimit = 16 * 1024
/** Milliseconds that a call waits for the entry of the audit trail: it also helps while the database is away. */
const longestAudit = 2000
const minute = 60_000

const processNumber = z
  .int('is a whole number')
  .min(0)
  .max(63)
  .default(0)
  .describe('Process of the node: 0 is the first; 1 and more are those of `proxy.workers`')
const heapQuery = z.strictObject({ process: processNumber })
const profileQuery = z.strictObject({
  seconds: z
    .int('is a whole number, 1 to 60')
    .min(1)
    .max(60)
    .default(10)
    .describe('Length of the profile'),
  process: processNumber,
})

const level = z.enum(['debug', 'info', 'warn', 'error'])
const levelSchema = z
  .strictObject({
    level,
    minutes: z.int().min(1).max(60).default(10).describe('Until the configured level is back.'),
  })
  .meta({ id: 'DebugLogChange' })
const logSchema = z
  .strictObject({
    level: level.describe('The level in force.'),
    configured: level.describe('That of the configuration.'),
    until: z.iso
      .datetime()
      .nullable()
      .describe('When the configured level is back; null: it is in force.'),
  })
  .meta({ id: 'DebugLog' })
const stateSchema = z
  .strictObject({ processes: z.array(z.int()), log: logSchema })
  .meta({ id: 'DebugState' })

const turnSchema = z
  .strictObject({
    process: z.int(),
    at: z.iso.datetime().describe('Its end.'),
    late_ms: z.number(),
    cpu_ms: z
      .number()
      .describe('CPU time of the thread in it: if it is much less, the machine had no CPU for it.'),
    gc_ms: z.number().describe('Pauses of the garbage collector in it.'),
    stack: z
      .array(z.string())
      .nullable()
      .describe('Functions that ran after 100 ms, the innermost first; null: not known.'),
  })
  .meta({ id: 'LateTurn' })

const outcome = z.enum([
  'refused',
  'inactive',
  'qps',
  'overload',
  'slow_request',
  'timeout',
  'upstream_error',
  'unreadable',
])
const refusedQuery = z.strictObject({
  outcome: outcome.optional().describe('Only requests with this outcome'),
  ssp: z.string().max(63).optional().describe('Only requests of this supplier'),
})
const refusedSchema = z
  .strictObject({
    process: z.int(),
    at: z.iso.datetime(),
    ssp: z.string(),
    outcome,
    reason: z
      .string()
      .nullable()
      .describe('Of `refused`: method (405), caller or certificate (403), body (413, 400).'),
    status: z.int().describe('What the caller has; 0: nothing.'),
    protocol: z.string(),
    duration_ms: z.number(),
    endpoint: z.string().nullable().describe('Host of the last attempt; null: not sent.'),
  })
  .meta({ id: 'RefusedRequest' })
/** Requests of one answer. */
const maxRefused = 100

const iso = (time: number) => new Date(time).toISOString()
const rounded = (ms: number) => Math.round(ms * 1000) / 1000

/** The calls, whatever listener they come from. */
export class DebugCalls {
  private readonly deps: DebugDeps
  private writing = false

  constructor(deps: DebugDeps) {
    this.deps = deps
  }

  logState(): z.infer<typeof logSchema> {
    const { level, configured, until } = this.deps.debug.level
    return { level, configured, until: until === null ? null : iso(until) }
  }

  state(): z.infer<typeof stateSchema> {
    return { processes: this.deps.debug.processes(), log: this.logState() }
  }

  async setLevel(request: FastifyRequest): Promise<z.infer<typeof logSchema>> {
    const { level, minutes } = bodyOf(levelSchema, request)
    const before = this.logState()
    this.deps.debug.setLevel(level, minutes * minute)
    const after = this.logState()
    await this.audited(request, 'debug_log', before, after)
    return after
  }

  async lateTurns(): Promise<z.infer<typeof turnSchema>[]> {
    const turns = await this.deps.debug.lateTurns()
    return turns.map(({ endedAt, lateMs, cpuMs, gcMs, ...turn }) => ({
      ...turn,
      at: iso(endedAt),
      late_ms: rounded(lateMs),
      cpu_ms: rounded(cpuMs),
      gc_ms: rounded(gcMs),
    }))
  }

  async refused(request: FastifyRequest): Promise<z.infer<typeof refusedSchema>[]> {
    const { outcome: wanted, ssp } = queryOf(refusedQuery, request)
    const requests = await this.deps.debug.refused()
    return requests
      .filter((request) => wanted === undefined || request.outcome === wanted)
      .filter((request) => ssp === undefined || request.ssp === ssp)
      .slice(0, maxRefused)
      .map(({ time, durationMs, outcome: outcomeText, ...rest }) => ({
        ...rest,
        outcome: outcome.parse(outcomeText),
        at: iso(time),
        duration_ms: rounded(durationMs),
      }))
  }

  async profile(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { seconds, process } = queryOf(profileQuery, request)
    return this.sendFile(request, reply, 'profile', process, 'cpuprofile', { seconds }, () =>
      this.deps.debug.profile(process, seconds * 1000),
    )
  }

  async heap(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { process } = queryOf(heapQuery, request)
    return this.sendFile(request, reply, 'heap', process, 'heapsnapshot', {}, () =>
      this.deps.debug.heapSnapshot(process),
    )
  }

  /** One file at a time: a second profile would see the first, and snapshots need memory. */
  private async sendFile(
    request: FastifyRequest,
    reply: FastifyReply,
    what: 'profile' | 'heap',
    process: number,
    suffix: string,
    details: object,
    make: () => ReturnType<DebugAccess['profile']>,
  ): Promise<FastifyReply> {
    if (!this.deps.debug.processes().includes(process)) throw new Problem('unknown_process')
    if (this.writing) throw new BusyError('A profile or a heap snapshot is being made')
    this.writing = true
    try {
      await this.audited(request, `debug_${what}`, null, { process, ...details })
      const file = await make().catch((error: Error) => {
        throw new Problem('debug_failed', { title: `The file was not made: ${error.message}` })
      })
      const name = `bidweir-${process}-${iso(Date.now()).replaceAll(/[:.]/g, '-')}.${suffix}`
      return reply
        .type('application/json')
        .header('content-disposition', `attachment; filename="${name}"`)
        .send(file)
    } finally {
      this.writing = false
    }
  }

  /** In the log, and in the audit trail if the database takes it. */
  private async audited(
    request: FastifyRequest,
    action: string,
    before: unknown,
    after: unknown,
  ): Promise<void> {
    const { store, now, log } = this.deps
    const author = authorOf(request)
    log.warn({ ...author, after }, `an operator called ${action}`)
    const entry = { ...author, supplier: '', action, before, after }
    const written = store.db.transaction().execute((trx) => audit(trx, now(), entry))
    const late = new Promise<never>((_resolve, reject) => {
      setTimeout(() => reject(new Error('it takes too long')), longestAudit).unref()
    })
    await Promise.race([written, late]).catch((error: Error) =>
      log.error({ action, err: error.message }, 'the audit trail has no entry of this call'),
    )
  }
}

const file = (description: string) => ({
  description,
  headers: {
    'Content-Disposition': { description: 'A name of the file', schema: { type: 'string' } },
  },
  content: { schema: z.looseObject({}) },
})

const call = (
  method: Route['method'],
  path: string,
  id: string,
  summary: string,
  handler: Route['handler'],
): Omit<Route, 'answers'> => ({
  ...{ method, path: `/api/svc/debug/${path}`, id, summary },
  tag: 'service',
  role: 'operator',
  handler: ofAllAccounts(handler),
})

function routesOf(calls: DebugCalls): Route[] {
  const oneFile = { problems: [404, 413, 415, 503] }
  const example = {
    level: 'debug',
    configured: 'info',
    until: '2026-01-31T12:10:00.000Z',
  } as const
  return [
    {
      ...call('GET', '', 'debugState', 'Processes of this node, and the level of its log', () =>
        calls.state(),
      ),
      answers: { 200: jsonAnswer('The state', stateSchema, { processes: [0, 1], log: example }) },
    },
    {
      ...call(
        'PUT',
        'log/',
        'debugLog',
        'Changes the level of the log for some minutes',
        (request) => calls.setLevel(request),
      ),
      description: 'Of all processes of this node. The configured level is back by itself.',
      body: { schema: levelSchema, example: { level: 'debug', minutes: 10 } },
      answers: { 200: jsonAnswer('The level', logSchema, example) },
    },
    {
      ...call('POST', 'profile/', 'debugProfile', 'A CPU profile of a process', (request, reply) =>
        calls.profile(request, reply),
      ),
      description:
        'Answered when the profile is complete. The process serves bids meanwhile. Developer tools of browsers open the file.',
      query: profileQuery,
      answers: { 200: file('The `.cpuprofile`') },
      ...oneFile,
    },
    {
      ...call('POST', 'heap/', 'debugHeap', 'A heap snapshot of a process', (request, reply) =>
        calls.heap(request, reply),
      ),
      description:
        'The process serves nothing while it is made, about a second for 100 MB of heap. The file contains keys and what requests in flight contain.',
      query: heapQuery,
      answers: { 200: file('The `.heapsnapshot`') },
      ...oneFile,
    },
    {
      ...call(
        'GET',
        'refused/',
        'debugRefused',
        'The last 100 bid requests without a response of their supplier',
        (request) => calls.refused(request),
      ),
      description: 'The newest first. Without bodies, headers, queries and addresses.',
      query: refusedQuery,
      answers: {
        200: jsonAnswer('The requests', z.array(refusedSchema), [
          {
            ...{ process: 0, at: '2026-01-31T12:00:00.000Z', ssp: 'acme', outcome: 'refused' },
            ...{ reason: 'caller', status: 403, protocol: 'HTTP/1.1', duration_ms: 0.1 },
            endpoint: null,
          },
        ]),
      },
    },
    {
      ...call(
        'GET',
        'turns/',
        'debugTurns',
        'The last late turns of the event loops, and what ran',
        () => calls.lateTurns(),
      ),
      description: 'Turns that were late by 100 ms or more, the newest first.',
      answers: {
        200: jsonAnswer('The turns', z.array(turnSchema), [
          {
            ...{ process: 0, at: '2026-01-31T12:00:00.000Z', late_ms: 312.5, cpu_ms: 309.1 },
            ...{ gc_ms: 0, stack: ['sumOf (admin/fleet/kept-sums.ts:88)'] },
          },
        ]),
      },
    },
  ]
}

/**
 * The plugin of `/api/svc/debug/`, for operators of account `*`.
 *
 * @param calls read and profile the processes of this node
 * @param authenticate answers a caller without a valid token
 */
export const debugPlugin = (calls: DebugCalls, authenticate: Authenticate): FastifyPluginAsync =>
  jsonCalls(routesOf(calls), authenticate, bodyLimit)
