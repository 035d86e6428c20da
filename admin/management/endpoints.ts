/**
 * `/api/svc/endpoints/`: the state of each endpoint on each node, and the endpoints that an operator ejects or restores for a
 * time.
 */
import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import { milliseconds } from '../../opd/base/units.ts'
import { jsonAnswer, queryOf, type Route } from '../http/call.ts'
import { bodyOf } from '../http/json-body.ts'
import { Problem } from '../http/problem.ts'
import { type EndpointOverride, readOverrides, setOverride } from '../store/endpoint-overrides.ts'
import { type Access, changeOf, find, visible } from './access.ts'

/** An endpoint of the configuration. */
export interface ConfiguredEndpoint {
  /** Origin and path: a query may be a secret. */
  url: string
  weight: number
  zone: string | null
  priority: number
}

/** What a node knows of an endpoint. */
export interface EndpointOnNode {
  url: string
  state: 'up' | 'failing' | 'ejected' | 'unhealthy' | 'out'
  /** Consecutive failures up to the last request. */
  failures: number
  inFlight?: number
  /** It is one of the canary. */
  canary?: true
  /** Why it is not up. */
  reason?: string
  /** Milliseconds since the epoch: when its state began, and when a request is sent there again. */
  since?: number
  nextTry?: number
  lastError?: { text: string; at: number }
}

export interface EndpointAccess extends Access {
  /** The endpoints of a supplier; empty: it has none. */
  endpoints(id: string): readonly ConfiguredEndpoint[]
  /** What each live node knows of suppliers, this node first. */
  endpointNodes(
    ids: readonly string[],
  ): Promise<
    readonly { node: string; endpoints: Readonly<Record<string, readonly EndpointOnNode[]>> }[]
  >
}

const states = ['up', 'failing', 'ejected', 'unhealthy', 'out'] as const
const time = z.iso.datetime().nullable()

const nodeStateSchema = z
  .strictObject({
    node: z.string(),
    state: z
      .enum(states)
      .describe(
        'ejected: it failed requests; unhealthy: it fails its health checks; out: an operator has ejected it',
      ),
    reason: z.string().nullable().describe('Why it is not up'),
    since: time.describe('When the state began'),
    next_try: time.describe('When a request is sent there again'),
    last_error: z.string().nullable(),
    last_error_at: time,
    failures: z.int().describe('Consecutive failures up to the last request'),
    in_flight: z.int().nullable(),
  })
  .meta({ id: 'EndpointOnNode' })

const endpointSchema = z
  .strictObject({
    url: z.string().describe('Origin and path'),
    weight: z.int(),
    zone: z.string().nullable(),
    priority: z.int(),
    override: z
      .strictObject({
        action: z.enum(['eject', 'restore']),
        until: z.iso.datetime(),
        who: z.string(),
      })
      .nullable()
      .describe('What an operator has decided'),
    nodes: z.array(nodeStateSchema),
  })
  .meta({ id: 'Endpoint' })

const supplierSchema = z
  .strictObject({ supplier: z.string(), endpoints: z.array(endpointSchema) })
  .meta({ id: 'SupplierEndpoints' })

/** Milliseconds. */
const longest = 7 * 86_400_000
const changeSchema = z
  .strictObject({
    endpoint: z.string().describe('Origin and path of the endpoint, as the list shows it'),
    action: z
      .enum(['eject', 'restore', 'release'])
      .describe(
        'eject: no requests. restore: requests whatever its state. release: its state decides again.',
      ),
    for: z
      .string()
      .refine((text) => {
        const ms = milliseconds(text)
        return ms >= 1000 && ms <= longest
      }, 'is a duration between 1s and 7d, such as 10m')
      .default('1h'),
  })
  .meta({ id: 'EndpointChange' })

const listSchema = z.strictObject({
  down: z
    .enum(['true', 'false'])
    .default('false')
    .describe(
      'true: only suppliers of which an endpoint is not up, or is out or in by an operator',
    ),
})

const example = {
  supplier: 'acme',
  endpoints: [
    {
      ...{ url: 'https://bid.acme.example/openrtb', weight: 1, zone: null, priority: 0 },
      override: null,
      nodes: [
        {
          ...{ node: 'bidweir-0-3f1c', state: 'ejected', reason: 'timeout' },
          ...{ since: '2026-01-31T12:00:00.000Z', next_try: '2026-01-31T12:00:04.000Z' },
          ...{ last_error: 'timeout', last_error_at: '2026-01-31T12:00:00.000Z' },
          ...{ failures: 5, in_flight: 0 },
        },
      ],
    },
  ],
}

const isoOf = (time: number | undefined) =>
  time === undefined ? null : new Date(time).toISOString()

export function endpointRoutes(access: EndpointAccess): Route[] {
  const { store, changed, now } = access

  /** The endpoints of suppliers, with what each node knows. */
  async function shown(ids: readonly string[]) {
    const [nodes, overrides] = await Promise.all([
      access.endpointNodes(ids),
      readOverrides(store.db, store.clock()),
    ])
    const decided = new Map(overrides.map((row) => [`${row.supplier} ${row.endpoint}`, row]))
    return ids.map((supplier) => {
      const byNode = nodes.map(({ node, endpoints: known }) => ({
        node,
        known: known[supplier] ?? [],
      }))
      return {
        supplier,
        endpoints: access.endpoints(supplier).map((endpoint) => {
          const override = decided.get(`${supplier} ${endpoint.url}`)
          return {
            ...endpoint,
            override: override === undefined ? null : overrideOf(override),
            nodes: byNode.flatMap(({ node, known }) => {
              const found = known.find(({ url }) => url === endpoint.url)
              return found === undefined ? [] : [{ node, ...onNode(found) }]
            }),
          }
        }),
      }
    })
  }

  const overrideOf = ({ state, until, who }: EndpointOverride) => ({
    action: state === 'out' ? ('eject' as const) : ('restore' as const),
    until: new Date(until).toISOString(),
    who,
  })

  const onNode = ({ state, failures, ...rest }: EndpointOnNode) => ({
    state,
    reason: rest.reason ?? null,
    since: isoOf(rest.since),
    next_try: isoOf(rest.nextTry),
    last_error: rest.lastError?.text ?? null,
    last_error_at: isoOf(rest.lastError?.at),
    failures,
    in_flight: rest.inFlight ?? null,
  })

  async function change(request: FastifyRequest) {
    const { id } = find(access, request)
    const { endpoint, action, for: text } = bodyOf(changeSchema, request)
    const urls = access.endpoints(id).map(({ url }) => url)
    if (!urls.includes(endpoint))
      throw new Problem('unknown_endpoint', {
        faults: [{ pointer: '/endpoint', detail: `must be one of ${urls.join(', ')}` }],
      })
    const until = store.clock() + milliseconds(text)
    const wanted =
      action === 'release' ? null : ({ state: action === 'eject' ? 'out' : 'in', until } as const)
    const change = changeOf(request, id, `endpoint_${action}`)
    await setOverride(store, now(), change, endpoint, wanted, (current) => {
      const out = new Set(current.flatMap((row) => (row.state === 'out' ? [row.endpoint] : [])))
      if (action === 'eject' && urls.every((url) => url === endpoint || out.has(url)))
        throw new Problem('last_endpoint', {
          faults: [
            {
              pointer: '/endpoint',
              detail: 'all others are ejected: restore or release one first',
            },
          ],
        })
    })
    changed()
    return (await shown([id]))[0]
  }

  const params = { id: ['The id of the supplier', 'acme'] } as const
  const tag = 'management'
  return [
    {
      ...{ method: 'GET', path: '/api/svc/endpoints/', id: 'listEndpoints', tag, role: 'viewer' },
      summary: 'The endpoints of all suppliers, and their state on each node',
      query: listSchema,
      answers: { 200: jsonAnswer('By supplier', z.array(supplierSchema), [example]) },
      problems: [503],
      async handler(request) {
        const all = await shown(visible(access, request).map(({ id }) => id))
        if (queryOf(listSchema, request).down === 'false') return all
        return all.filter(({ endpoints }) =>
          endpoints.some(
            ({ override, nodes }) => override !== null || nodes.some(({ state }) => state !== 'up'),
          ),
        )
      },
    },
    {
      ...{ method: 'GET', path: '/api/svc/endpoints/{id}/', id: 'readEndpoints', tag, params },
      summary: 'The endpoints of a supplier, and their state on each node',
      description:
        'Why an endpoint is not up, since when, when it is tried again, and its last error. States of other nodes are up to 12 seconds old.',
      role: 'viewer',
      answers: { 200: jsonAnswer('The endpoints', supplierSchema, example) },
      problems: [404, 503],
      handler: async (request) => (await shown([find(access, request).id]))[0],
    },
    {
      ...{ method: 'PUT', path: '/api/svc/endpoints/{id}/', id: 'changeEndpoint', tag, params },
      summary: 'Ejects or restores an endpoint for a time',
      description:
        'Takes effect on every node within two seconds. An endpoint that is ejected gets no requests; one that is restored gets requests although it failed, until the time is over.',
      role: 'operator',
      body: {
        schema: changeSchema,
        example: { endpoint: 'https://bid.acme.example/openrtb', action: 'eject', for: '10m' },
      },
      answers: { 200: jsonAnswer('The endpoints after the change', supplierSchema, example) },
      problems: [404, 409, 422, 503],
      handler: change,
    },
  ]
}
