/** Operations of `/opd/imp`, `/opd/<ssp>_yesbid`, reports and decisions. */

import { noticeParameters } from '../../impressions/notice.ts'
import { decisionProperties } from '../../prices/decisions.ts'
import { formats, reports } from '../../reports/report-query.ts'
import { groups } from '../../reports/scope.ts'
import { body, guarded, inPath, inQuery, type Json, problems } from './parts.ts'

const descriptions: Readonly<Record<string, string>> = {
  bid_id: 'The id of the winning bid, as in the bid response',
  price:
    'The cleared price, the expansion of `${AUCTION_PRICE}`; `AUDIT` is a test that is not counted',
  svc_opd: 'The context, the expansion of `${SVC_OPD_CONTEXT}`',
  ssp: 'The supplier, if several suppliers may use the same bid id',
  event: '`win` (the default) or `billing`; each counts once for a decision',
  price_dsp: 'The demand-side price, for integrations with `priceDsp`',
}
const valuesOf: Readonly<Record<string, Json>> = {
  price: { type: 'string', pattern: '^([0-9]+(\\.[0-9]+)?|AUDIT)$', examples: ['1.25'] },
  price_dsp: { type: 'string', pattern: '^([0-9]+(\\.[0-9]+)?|AUDIT)$' },
  event: { type: 'string', enum: ['win', 'billing'], default: 'win' },
}

const outcome = {
  type: 'object',
  properties: {
    status: { type: 'string', enum: ['attributed', 'unattributed', 'duplicate', 'ignored'] },
    by: { enum: ['context', 'bid_log', null] },
    late: { const: true },
    reason: { type: 'string' },
  },
  required: ['status', 'by'],
}

const money = {
  type: 'string',
  description: 'Exact decimal, CPM',
  pattern: '^-?[0-9]+(\\.[0-9]+)?$',
}
const figure = { type: ['number', 'null'] }
const text = new Set(['key'])
const sums = new Set(['revenue', 'cleared', 'margin', 'out_ba', 'difference'])
const counts = new Set([
  'decided',
  'wins',
  'unattributed',
  'duplicate',
  'rejected',
  'voided',
  'late',
  'over',
])
const columnType = (name: string): Json =>
  text.has(name)
    ? { type: 'string' }
    : sums.has(name)
      ? money
      : counts.has(name)
        ? { type: 'integer' }
        : name === 'no_rate'
          ? { type: 'object', description: 'Money in currencies without a rate, each in its own' }
          : figure

const reportRow = (columns: readonly string[]): Json => ({
  type: 'object',
  properties: Object.fromEntries(columns.map((name) => [name, columnType(name)])),
  required: columns,
})

const time = (name: string, description: string) =>
  inQuery(name, description, {
    anyOf: [
      { type: 'string', format: 'date-time' },
      { type: 'string', format: 'date' },
      { type: 'integer' },
    ],
  })

/** Bids of a standalone call; other members of OpenRTB are accepted too. */
const offeredBids = {
  type: 'array',
  items: {
    type: 'object',
    properties: {
      id: { type: 'string' },
      impid: { type: 'string' },
      price: {
        type: ['number', 'null'],
        minimum: 0,
        description: 'CPM; required without `price_dsp`',
      },
      dsp_id: { type: ['string', 'number', 'null'] },
      price_dsp: {
        type: ['number', 'null'],
        minimum: 0,
        description:
          'The demand-side price, CPM. It is the revenue of a win whose notice has none, for integrations with `priceDsp`',
      },
    },
    required: ['id'],
  },
}

const requestMembers = {
  id: { type: 'string' },
  imp: { type: 'array', items: { type: 'object' } },
  site: { type: ['object', 'null'] },
  app: { type: ['object', 'null'] },
  dooh: { type: ['object', 'null'] },
  device: { type: ['object', 'null'] },
  cur: { type: 'array', items: { type: 'string' } },
  at: { type: 'integer' },
  test: { type: 'integer' },
}

export const pricePaths: Readonly<Record<string, Json>> = {
  'GET /opd/imp': {
    operationId: 'reportWin',
    summary: 'A win notice of the platform',
    description:
      'The response is sent when the win is on disk. A repeated win is `duplicate` and changes nothing. If `admin.impressions.auth` is `bearer`, a token is required; if it is `context`, a valid `svc_opd` is the credential. Try again after 503, not after 400. 422: the cleared price is more than `clearing.maxOver` times the price sent; a later notice with another price counts.',
    tags: ['prices'],
    security: [...guarded, {}],
    parameters: Object.entries(noticeParameters).map(([name, { required }]) =>
      inQuery(name, descriptions[name] ?? name, valuesOf[name] ?? { type: 'string' }, required),
    ),
    responses: {
      200: {
        description: 'The notice was processed',
        content: body(outcome, { status: 'attributed', by: 'context' }),
      },
      ...problems(400, 401, 403, 405, 422, 503),
    },
  },
  'POST /opd/{ssp}_yesbid': {
    operationId: 'modifyPrices',
    summary: 'Prices bids that do not pass through the proxy',
    description:
      'An OpenRTB BidResponse with the members of the BidRequest that its prices depend on: `imp`, `site`, `app`, `device`, `cur` and others. Each of them is a member of the body or of `bidrequest`; in both places it is 400. `cur` as a string belongs to the BidResponse, as a list to the BidRequest. Without `imp` the floor is 0, and a bid with a `dealid` keeps its price. Unknown members are ignored. But if a call has no `imp`, an `imp` or `bidfloor` in an unexpected place, outside `ext`, is 400. The response has one entry for each bid, in order.',
    tags: ['prices'],
    security: guarded,
    parameters: [inPath('ssp', 'The integration', 'acme')],
    requestBody: {
      required: true,
      content: body(
        {
          type: 'object',
          properties: {
            seatbid: { type: 'array', items: { type: 'object', properties: { bid: offeredBids } } },
            ...requestMembers,
            cur: { ...requestMembers.cur, type: ['string', 'array'] },
            bidrequest: { type: ['object', 'null'], properties: requestMembers },
          },
          required: ['seatbid'],
        },
        {
          seatbid: [{ bid: [{ id: 'b1', impid: '1', price: 2.1, dsp_id: 'd1', price_dsp: 2.3 }] }],
          bidrequest: { imp: [{ id: '1', bidfloor: 1.5 }], cur: ['USD'] },
        },
      ),
    },
    responses: {
      200: {
        description: 'One entry for each bid',
        content: body(
          {
            type: 'array',
            items: {
              type: 'object',
              properties: {
                id: { type: 'string' },
                modified_price: { type: 'number' },
                svc_opd: { type: 'string', pattern: '^[A-Za-z0-9_-]+$', maxLength: 512 },
              },
              required: ['id', 'modified_price', 'svc_opd'],
            },
          },
          [{ id: 'b1', modified_price: 1.9, svc_opd: 'AQEx' }],
        ),
      },
      ...problems(400, 401, 403, 404, 405, 413, 415),
    },
  },
  'GET /api/svc/reports/{what}': {
    operationId: 'report',
    summary: 'Margin, wins or discrepancy, by supplier, publisher, domain, hour or day',
    tags: ['reports'],
    security: guarded,
    parameters: [
      {
        ...inPath('what', 'Which report', 'margin'),
        schema: { type: 'string', enum: Object.keys(reports) },
      },
      inQuery('ssp', 'Only this supplier', { type: 'string' }),
      time('from', 'Start of the range; by default a day before `to`'),
      time('to', 'End of the range, exclusive; by default now'),
      inQuery('by', 'The grouping of the rows', {
        type: 'string',
        enum: groups,
        default: groups[0],
      }),
      inQuery('format', 'JSON or RFC 4180 CSV', {
        type: 'string',
        enum: formats,
        default: formats[0],
      }),
    ],
    responses: {
      200: {
        description: 'One row for each group; money in the base currency',
        content: {
          'application/json': {
            schema: {
              type: 'array',
              items: { anyOf: Object.values(reports).map((columns) => reportRow(columns)) },
            },
          },
          'text/csv': { schema: { type: 'string' } },
        },
      },
      ...problems(400, 401, 403, 404, 503),
    },
  },
  'GET /api/svc/decisions/{svc_opd}': {
    operationId: 'explainDecision',
    summary: 'Explains the price of one bid',
    tags: ['reports'],
    security: guarded,
    parameters: [
      inPath('svc_opd', 'The context', 'AQEx'),
      inQuery('bid_id', 'The bid id, which the context is bound to', { type: 'string' }, true),
    ],
    responses: {
      200: {
        description: 'The decision, from its context',
        content: body(
          {
            type: 'object',
            properties: decisionProperties,
            required: Object.keys(decisionProperties),
          },
          {
            id: 'bf_SYc-nqWIAAAAB',
            bid_id: 'b1',
            ssp: 'acme',
            mode: 'revenue',
            context: 'valid',
            decided_at: '2026-11-21T07:24:19.328Z',
            late: false,
            arm: 'treated',
            reason: 'priced by the model',
            priced: true,
            in_ba: '2.1',
            out_ba: '1.9',
            currency: 'USD',
            floor: 0.5,
            factor: 0.904762,
            propensity: 0.9751,
            win_in: 0.41,
            win_out: 0.39,
            theta: 2.68,
            lambda: 0.05,
            guard: 'none',
            model_version: 7,
            publisher: 'pub-1',
            domain: 'news.example',
            teaches: true,
            feature_bytes: 51,
          },
        ),
      },
      ...problems(400, 401, 403, 404, 410),
    },
  },
}
