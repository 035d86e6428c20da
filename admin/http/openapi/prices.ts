/** The document of `/opd/imp`, `/opd/<ssp>_yesbid`, reports and decisions. */

import { noticeParameters } from '../../impressions/notice.ts'
import { decisionProperties } from '../../prices/decisions.ts'
import { formats, reports } from '../../reports/report-query.ts'
import { groups } from '../../reports/scope.ts'
import { body, guarded, inPath, inQuery, type Json, problems } from './parts.ts'

const told: Readonly<Record<string, string>> = {
  bid_id: 'The id of the winning bid, as in the bid response',
  price:
    'The cleared price: what the supplier expanded `${AUCTION_PRICE}` to; `AUDIT` is a test and counts nowhere',
  svc_opd: 'The context: what `${SVC_OPD_CONTEXT}` was expanded to',
  ssp: 'The supplier, where the bid id alone may be of several',
  event: '`win` (the default) or `billing`; each counts once a decision',
  price_dsp: 'The demand-side price, where the integration prices on the demand side',
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

/** Bids of a standalone call; all other members of OpenRTB may come too. */
const offeredBids = {
  type: 'array',
  items: {
    type: 'object',
    properties: {
      id: { type: 'string' },
      impid: { type: 'string' },
      price: { type: ['number', 'null'], minimum: 0, description: 'CPM; or else `price_dsp`' },
      dsp_id: { type: ['string', 'number', 'null'] },
      price_dsp: {
        type: ['number', 'null'],
        minimum: 0,
        description:
          'The demand-side price, CPM: the revenue of a win whose notice carries none, where the integration prices on the demand side',
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
      'Answered when the win is on disk. The same win reported again is `duplicate` and changes nothing. A token is needed where `admin.impressions.auth` is `bearer`; where it is `context` a valid `svc_opd` is the credential. Try again after 503; never after 400. 422: the cleared price is more than `clearing.maxOver` times the price sent; a later notice with another price counts.',
    tags: ['prices'],
    security: [...guarded, {}],
    parameters: Object.entries(noticeParameters).map(([name, { required }]) =>
      inQuery(name, told[name] ?? name, valuesOf[name] ?? { type: 'string' }, required),
    ),
    responses: {
      200: {
        description: 'The notice is kept',
        content: body(outcome, { status: 'attributed', by: 'context' }),
      },
      ...problems(400, 401, 403, 405, 422, 503),
    },
  },
  'POST /opd/{ssp}_yesbid': {
    operationId: 'modifyPrices',
    summary: 'Prices winning bids without the service in the bid’s way',
    description:
      'An OpenRTB BidResponse with what its prices depend on of the BidRequest: `imp`, `site`, `app`, `device`, `cur` and the like, each either as a member of the body or in `bidrequest`; in both places it is 400. `cur` as a text is the BidResponse’s, as a list the BidRequest’s. Without `imp` the floor is 0 and a bid with a `dealid` keeps its price. Members that are not known are ignored, but `imp` or `bidfloor` in a place where neither is read is 400 in a call without `imp`, save in an `ext`. One entry a bid, in order.',
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
        description: 'One entry a bid',
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
      time('from', 'Begin; a day before `to` where absent'),
      time('to', 'End, itself outside; now where absent'),
      inQuery('by', 'What a row stands for', { type: 'string', enum: groups, default: groups[0] }),
      inQuery('format', 'JSON or RFC 4180 CSV', {
        type: 'string',
        enum: formats,
        default: formats[0],
      }),
    ],
    responses: {
      200: {
        description: 'One row a group; money in the base currency',
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
    summary: 'Why one bid had the price that it had',
    tags: ['reports'],
    security: guarded,
    parameters: [
      inPath('svc_opd', 'The context', 'AQEx'),
      inQuery('bid_id', 'The bid id: a context is bound to it', { type: 'string' }, true),
    ],
    responses: {
      200: {
        description: 'The decision, as its context tells it',
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
