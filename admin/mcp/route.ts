/**
 * `POST /mcp`: the Model Context Protocol over streamable HTTP, for the assistants of operators and for exchanges that call
 * agents that way (CONTRACT 15). Each call is a request of its own: there is no session. All tools but `extend_rtb` are calls
 * of the API, with the caller's token.
 */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { jsonAnswer, readJsonCall } from '../../opd/agent/json.ts'
import type { AgentPricer } from '../agent/pricer.ts'
import { type Authenticate, jsonCalls, type Route } from '../http/call.ts'
import { bodyOf } from '../http/json-body.ts'
import { type AccountOf, may, type Role, seesSupplier } from '../http/roles.ts'
import { programVersion } from '../http/version.ts'
import { reports } from '../reports/columns.ts'

interface McpDeps {
  pricer: AgentPricer
  authenticate: Authenticate
  account: AccountOf
}

/** Bytes. A larger body is 413. */
const maxBodyBytes = 256 * 1024
/** Milliseconds for a call without `tmax`. */
const defaultTime = 1000

/** A call as the tools see it. */
interface McpCall {
  app: FastifyInstance
  request: FastifyRequest
}

const textOf = (text: string) => [{ type: 'text' as const, text }]
const failed = (problem: object): CallToolResult => ({
  isError: true,
  content: textOf(JSON.stringify(problem)),
})

/** The result of a call of the API: its JSON, or its problem document. */
async function callApi(
  { app, request }: McpCall,
  method: 'GET' | 'PUT',
  path: string,
  more: { query?: Record<string, unknown>; body?: object } = {},
): Promise<CallToolResult> {
  const query = Object.entries(more.query ?? {}).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)]],
  )
  const answer = await app.inject({
    method,
    url: `${path}${query.length === 0 ? '' : `?${new URLSearchParams(query)}`}`,
    headers: { authorization: request.headers.authorization },
    ...(more.body === undefined ? {} : { payload: more.body }),
  })
  const { statusCode, body } = answer
  return { isError: statusCode >= 300, content: textOf(body) }
}

/** Values are checked by `readJsonCall`, which names their places. */
const requestSchema = z.looseObject({
  id: z.unknown().optional().describe('Of this call, string; the answer has it'),
  lifecycle: z.unknown().optional().describe('LIFECYCLE_DSP_BID_RESPONSE, or absent'),
  tmax: z.unknown().optional().describe('Milliseconds in which the answer is needed'),
  bid_request: z.unknown().optional().describe('BidRequest of OpenRTB 2.6'),
  bid_response: z
    .unknown()
    .optional()
    .describe('BidResponse of OpenRTB 2.6, whose bids are to be priced'),
  originator: z
    .unknown()
    .optional()
    .describe(
      '{"type": "TYPE_DSP", "id": …}: who sent the bid response, the id of a supplier here',
    ),
  applicable_intents: z.unknown().optional().describe('["BID_SHADE"], or absent'),
})

const reportSchema = z.strictObject({
  what: z.enum(Object.keys(reports) as [string, ...string[]]),
  from: z.string().optional().describe('First time: a date, or 2026-01-31T12:00:00Z'),
  to: z.string().optional().describe('Time after the last'),
  by: z.string().optional().describe('One or two of ssp, seat, publisher, domain, via, hour, day'),
  ssp: z.string().optional().describe('Only this supplier'),
  publisher: z.string().optional(),
  domain: z.string().optional(),
  seat: z.string().optional(),
  top: z.int().optional().describe('Most rows, the largest first'),
  tz: z.string().optional().describe('IANA time zone'),
})
const decisionSchema = z.strictObject({
  bid_id: z.string().min(1),
  svc_opd: z.string().min(1).optional().describe('The context of the bid, if it is at hand'),
  ssp: z.string().optional().describe('The supplier, if several have sent this bid id'),
})
const holdSchema = z.strictObject({
  supplier: z.string().min(1).describe('The id of the supplier, or * for all'),
  hold: z.boolean().describe('true: factor 1 from now on; false: the hold ends'),
})

/** The tools. To add one, add a block; those of the API need no check of the role, which the API makes. */
function serverOf(call: McpCall, { pricer, account }: McpDeps): McpServer {
  const server = new McpServer({ name: 'bidweir', version: programVersion() })
  const readOnly = { readOnlyHint: true, openWorldHint: false }

  server.registerTool(
    'extend_rtb',
    {
      description:
        'Agentic RTB Framework 1.0: an RTBRequest, with names in snake case. The answer has a BID_SHADE mutation for each bid whose price changes, and the decisions are recorded. Role `api`.',
      inputSchema: requestSchema,
    },
    async (sent): Promise<CallToolResult> => {
      const { caller } = call.request
      if (caller === undefined || !may(caller.roles, 'api')) return failed(forbidden('api'))
      const began = performance.now()
      const read = readJsonCall(sent)
      if (!('bytes' in read))
        return failed({ status: 400, code: 'malformed', title: 'Not an RTBRequest', errors: read })
      const deadline = began + (read.tmax > 0 ? read.tmax : defaultTime)
      const sees = (ssp: string) => seesSupplier(caller, ssp, account)
      const { mutations, modelVersion } = await pricer.price(read, deadline, 0, sees)
      const answer = jsonAnswer(read.id, mutations, modelVersion)
      return { structuredContent: answer, content: textOf(JSON.stringify(answer)) }
    },
  )
  server.registerTool(
    'list_suppliers',
    {
      description: 'The suppliers that you may see, with their seats and data centers.',
      annotations: readOnly,
    },
    () => callApi(call, 'GET', '/api/svc/ssp/'),
  )
  server.registerTool(
    'report',
    {
      description: 'A report on margin, wins or discrepancy. Amounts are in the base currency.',
      inputSchema: reportSchema,
      annotations: readOnly,
    },
    ({ what, ...query }) => callApi(call, 'GET', `/api/svc/reports/${what}`, { query }),
  )
  server.registerTool(
    'explain_decision',
    {
      description: 'Why a bid got its price: by its bid id, or by its context and its bid id.',
      inputSchema: decisionSchema,
      annotations: readOnly,
    },
    ({ svc_opd, bid_id, ssp }) =>
      svc_opd === undefined
        ? callApi(call, 'GET', '/api/svc/decisions/', { query: { bid_id, ssp } })
        : callApi(call, 'GET', `/api/svc/decisions/${encodeURIComponent(svc_opd)}`, {
            query: { bid_id },
          }),
  )
  server.registerTool(
    'hold',
    {
      description:
        'Holds a supplier, or all of them, at factor 1 on every node, or ends the hold. It is audited. Role `operator`.',
      inputSchema: holdSchema,
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    },
    ({ supplier, hold }) =>
      callApi(call, 'PUT', `/api/svc/opd/${encodeURIComponent(supplier)}/`, { body: { hold } }),
  )
  return server
}

const forbidden = (role: Role) => ({
  status: 403,
  code: 'forbidden',
  title: `The token is valid, but does not permit this tool: it needs the role ${role}`,
})

/** A message of JSON-RPC 2.0, which the library reads. */
const messageSchema = z.looseObject({ jsonrpc: z.literal('2.0'), method: z.string().optional() })

export function mcp(deps: McpDeps): FastifyPluginAsync {
  return async (app) => {
    const route: Route = {
      method: 'POST',
      path: '/mcp',
      id: 'callTool',
      tag: 'service',
      summary: 'Model Context Protocol, streamable HTTP without sessions',
      description:
        'Tools: `extend_rtb` (role `api`), `list_suppliers`, `report`, `explain_decision`, `hold` (role `operator`).',
      role: 'viewer',
      body: {
        schema: messageSchema,
        example: { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} },
      },
      answers: {
        200: { description: 'The response of JSON-RPC', content: { schema: messageSchema } },
        202: { description: 'A notification was taken' },
      },
      async handler(request, reply) {
        const parsedBody = bodyOf(messageSchema, request)
        const server = serverOf({ app, request }, deps)
        const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
        try {
          await server.connect(transport)
          const headers = new Headers()
          for (const name of ['accept', 'content-type', 'mcp-protocol-version']) {
            const value = request.headers[name]
            if (typeof value === 'string') headers.set(name, value)
          }
          const sent = new Request('http://bidweir/mcp', { method: 'POST', headers })
          const answer = await transport.handleRequest(sent, { parsedBody })
          const text = await answer.text()
          return reply
            .code(answer.status)
            .headers(Object.fromEntries(answer.headers))
            .header('cache-control', 'no-store')
            .send(text)
        } finally {
          await server.close()
        }
      },
    }
    await app.register(jsonCalls([route], deps.authenticate, maxBodyBytes))
  }
}
