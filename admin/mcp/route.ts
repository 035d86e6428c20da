/**
 * `POST /mcp`: the Model Context Protocol over streamable HTTP, for the assistants of operators and for exchanges that call
 * agents that way (CONTRACT 15). Each call is a request of its own: there is no session. All tools but `extend_rtb` are calls
 * of the API, with the caller's token.
 */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import {
  CallToolRequestSchema,
  type CallToolResult,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type Tool,
  type ToolAnnotations,
} from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { jsonAnswer, readJsonCall } from '../../opd/agent/json.ts'
import type { AgentPricer } from '../agent/pricer.ts'
import { type Authenticate, jsonCalls, type Route } from '../http/call.ts'
import { bodyOf, faultsOf } from '../http/json-body.ts'
import type { ProblemFault } from '../http/problem.ts'
import { type AccountOf, may, type Role, seesSupplier } from '../http/roles.ts'
import { programVersion } from '../http/version.ts'
import { reports } from '../reports/columns.ts'
import { groups } from '../reports/scope.ts'

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
interface McpCall extends McpDeps {
  app: FastifyInstance
  request: FastifyRequest
}

interface ToolOf<Args extends z.ZodType> {
  name: string
  description: string
  args: Args
  annotations?: ToolAnnotations
  run(call: McpCall, args: z.output<Args>): CallToolResult | Promise<CallToolResult>
}

/** A tool, and how it is listed. That is made once: it takes milliseconds. */
interface ListedTool {
  listed: Tool
  run(call: McpCall, sent: unknown): CallToolResult | Promise<CallToolResult>
}

function tool<Args extends z.ZodType>({ args, run, ...rest }: ToolOf<Args>): ListedTool {
  const inputSchema = z.toJSONSchema(args, { io: 'input' }) as Tool['inputSchema']
  return {
    listed: { ...rest, inputSchema },
    run(call, sent) {
      const { success, data, error } = args.safeParse(sent ?? {}, { reportInput: true })
      if (success) return run(call, data)
      return malformed('Not the arguments of this tool', error.issues.flatMap(faultsOf))
    },
  }
}

const textOf = (text: string) => [{ type: 'text' as const, text }]
const failed = (problem: object): CallToolResult => ({
  isError: true,
  content: textOf(JSON.stringify(problem)),
})
const malformed = (title: string, errors: readonly ProblemFault[]) =>
  failed({ status: 400, code: 'malformed', title, errors })
const forbidden = (role: Role) =>
  failed({
    status: 403,
    code: 'forbidden',
    title: `The token is valid, but does not permit this tool: it needs the role ${role}`,
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
  by: z
    .string()
    .optional()
    .describe(`One or two of ${groups.join(', ')}`),
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

const readOnly: ToolAnnotations = { readOnlyHint: true, openWorldHint: false }

/** To add a tool, add a block. Those that call the API need no check of the role: the API makes it. */
const tools: readonly ListedTool[] = [
  tool({
    name: 'extend_rtb',
    description:
      'Agentic RTB Framework 1.0: an RTBRequest, with names in snake case. The answer has a BID_SHADE mutation for each bid whose price changes, and the decisions are recorded. Role `api`.',
    args: requestSchema,
    async run({ request: { caller }, pricer, account }, sent) {
      if (caller === undefined || !may(caller.roles, 'api')) return forbidden('api')
      const began = performance.now()
      const read = readJsonCall(sent)
      if (!('bytes' in read)) return malformed('Not an RTBRequest', read)
      const deadline = began + (read.tmax > 0 ? read.tmax : defaultTime)
      const sees = (ssp: string) => seesSupplier(caller, ssp, account)
      const { mutations, modelVersion } = await pricer.price(read, deadline, 0, sees)
      const answer = jsonAnswer(read.id, mutations, modelVersion)
      return { structuredContent: answer, content: textOf(JSON.stringify(answer)) }
    },
  }),
  tool({
    name: 'list_suppliers',
    description: 'The suppliers that you may see, with their seats and data centers.',
    args: z.strictObject({}),
    annotations: readOnly,
    run: (call) => callApi(call, 'GET', '/api/svc/ssp/'),
  }),
  tool({
    name: 'report',
    description: 'A report on margin, wins or discrepancy. Amounts are in the base currency.',
    args: reportSchema,
    annotations: readOnly,
    run: (call, { what, ...query }) => callApi(call, 'GET', `/api/svc/reports/${what}`, { query }),
  }),
  tool({
    name: 'explain_decision',
    description: 'Why a bid got its price: by its bid id, or by its context and its bid id.',
    args: decisionSchema,
    annotations: readOnly,
    run: (call, { svc_opd, bid_id, ssp }) =>
      svc_opd === undefined
        ? callApi(call, 'GET', '/api/svc/decisions/', { query: { bid_id, ssp } })
        : callApi(call, 'GET', `/api/svc/decisions/${encodeURIComponent(svc_opd)}`, {
            query: { bid_id },
          }),
  }),
  tool({
    name: 'hold',
    description:
      'Holds a supplier, or all of them, at factor 1 on every node, or ends the hold. It is audited. Role `operator`.',
    args: holdSchema,
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
    run: (call, { supplier, hold }) =>
      callApi(call, 'PUT', `/api/svc/opd/${encodeURIComponent(supplier)}/`, { body: { hold } }),
  }),
]
const toolNames = tools.map(({ listed }) => listed.name)

/** Of what clients would be asked, which they are not. One for all calls: the library makes one for each, in a millisecond. */
const jsonSchemaValidator = new AjvJsonSchemaValidator()

/** The library's server for one call. */
function serverOf(call: McpCall): Server {
  const server = new Server(
    { name: 'bidweir', version: programVersion() },
    { capabilities: { tools: {} }, jsonSchemaValidator },
  )
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: tools.map(({ listed }) => listed),
  }))
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
    const found = tools.find(({ listed }) => listed.name === params.name)
    if (found !== undefined) return found.run(call, params.arguments)
    const known = toolNames.join(', ')
    throw new McpError(ErrorCode.InvalidParams, `no tool ${params.name}; the tools are ${known}`)
  })
  return server
}

/** A message of JSON-RPC 2.0, which the library reads. */
const messageSchema = z.looseObject({ jsonrpc: z.literal('2.0'), method: z.string().optional() })

/**
 * The plugin of `/mcp`.
 *
 * @param deps the calls that are tools, and who may call them
 */
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
        const server = serverOf({ ...deps, app, request })
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
