/** `POST /opd/<ssp>_yesbid`: prices bids that do not pass through the proxy (SERVICE 4.6, CONTRACT 7). */
import type { FastifyPluginAsync, FastifyReply } from 'fastify'
import * as z from 'zod'
import type { Engine, StandaloneEntry } from '../../opd/types.ts'
import { type Authenticate, jsonAnswer, jsonCalls, type Route } from '../http/call.ts'
import { Problem } from '../http/problem.ts'
import { type AccountOf, seesSupplier } from '../http/roles.ts'

interface StandaloneDeps {
  engine: Engine
  authenticate: Authenticate
  account: AccountOf
}

/** A larger body is 413. */
const maxBodyBytes = 1024 * 1024
/** Milliseconds of pricing between two yields to the event loop. */
const slice = 2

/** Codes of refusals of the engine. */
const codes = { 400: 'malformed', 403: 'opd_disabled', 404: 'unknown_supplier' } as const

const object = z.looseObject({})
const requestMembers = {
  id: z.string().optional(),
  imp: z.array(object).optional(),
  site: object.nullish(),
  app: object.nullish(),
  dooh: object.nullish(),
  device: object.nullish(),
  user: object.nullish(),
  cur: z.array(z.string()).optional(),
  at: z.int().optional(),
  test: z.int().optional(),
}
const bidSchema = z.looseObject({
  id: z.string(),
  impid: z.string().optional(),
  price: z.number().min(0).nullish().describe('CPM; required without `price_dsp`'),
  dsp_id: z.union([z.string(), z.number()]).nullish(),
  price_dsp: z
    .number()
    .min(0)
    .nullish()
    .describe(
      'The demand-side price, CPM. It is the revenue of a win whose notice has none, for integrations with `priceDsp`',
    ),
})
/** Documents the body. The engine itself reads the bytes: prices stay decimal text. */
const bodySchema = z.looseObject({
  ...requestMembers,
  seatbid: z.array(z.looseObject({ bid: z.array(bidSchema).optional() })),
  cur: z.union([z.string(), z.array(z.string())]).optional(),
  bidrequest: z.looseObject(requestMembers).nullish(),
})
const entrySchema = z.object({
  id: z.string(),
  modified_price: z.number(),
  svc_opd: z
    .string()
    .max(512)
    .regex(/^[A-Za-z0-9_-]+$/),
})

const call: Omit<Route, 'handler'> = {
  method: 'POST',
  path: '/opd/{ssp}_yesbid',
  id: 'modifyPrices',
  tag: 'prices',
  summary: 'Prices bids that do not pass through the proxy',
  description:
    'An OpenRTB BidResponse with the members of the BidRequest that its prices depend on: `imp`, `site`, `app`, `device`, `user`, `cur` and others. Each of them is a member of the body or of `bidrequest`; in both places it is 400. `cur` as a string belongs to the BidResponse, as a list to the BidRequest. Without `imp` the floor is 0, and a bid with a `dealid` keeps its price. Unknown members are ignored. But if a call has no `imp`, an `imp` or `bidfloor` in an unexpected place, outside `ext`, is 400. The response has one entry for each bid, in order.',
  role: 'api',
  params: { ssp: ['The integration', 'acme'] },
  body: {
    schema: bodySchema,
    example: {
      seatbid: [{ bid: [{ id: 'b1', impid: '1', price: 2.1, dsp_id: 'd1', price_dsp: 2.3 }] }],
      bidrequest: { imp: [{ id: '1', bidfloor: 1.5 }], cur: ['USD'] },
    },
  },
  answers: {
    200: jsonAnswer('One entry for each bid', z.array(entrySchema), [
      { id: 'b1', modified_price: 1.9, svc_opd: 'AQEx' },
    ]),
  },
  problems: [404],
}

/**
 * The response text. Bids are priced while it is written, with a yield to the event loop after each slice; null if
 * the client has disconnected.
 */
async function written(
  entries: Iterable<StandaloneEntry>,
  reply: FastifyReply,
): Promise<string | null> {
  let text = '['
  let began = performance.now()
  for (const { id, price, context } of entries) {
    // the price is decimal text and is never converted to a double
    text += `${text === '[' ? '' : ','}{"id":${JSON.stringify(id)},"modified_price":${price},"svc_opd":"${context}"}`
    if (performance.now() - began < slice) continue
    await new Promise((resolve) => setImmediate(resolve))
    if (reply.raw.destroyed) return null
    began = performance.now()
  }
  return `${text}]`
}

/**
 * The plugin of `/opd/…_yesbid`, standalone prices.
 *
 * @param deps `account`: the account of a supplier by its id, null: of none
 */
export function standalone({ engine, authenticate, account }: StandaloneDeps): FastifyPluginAsync {
  const route: Route = {
    ...call,
    async handler(request, reply) {
      const { ssp } = request.params as { ssp: string }
      if (!seesSupplier(request.caller, ssp, account)) throw new Problem('unknown_supplier')
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      const answer = engine.priceStandalone(ssp, body)
      if (!answer.ok) throw new Problem(codes[answer.status], { faults: answer.faults })
      const text = await written(answer.entries, reply)
      return text === null ? reply.hijack() : reply.type('application/json').send(text)
    },
  }

  return async (app) => {
    app.setErrorHandler((error: Error & { statusCode?: number }) => {
      if (error.statusCode === 413)
        throw new Problem('too_large', { title: `The body is larger than ${maxBodyBytes} bytes` })
      if (error.statusCode === 415) throw new Problem('unsupported_media_type')
      throw error
    })
    await app.register(jsonCalls([route], authenticate, maxBodyBytes))
  }
}
