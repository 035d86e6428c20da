import t from 'tap'
import type { EligibleBid } from '../../../opd/shared/reasons.ts'
import { standalone } from '../../../opd/standalone/standalone.ts'
import { opdOf } from '../../support/rewrite.ts'

function call(body: string | object, opd: Record<string, unknown> | null = {}) {
  const priced: EligibleBid[] = []
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const answer = standalone(Buffer.from(text), opdOf(opd), null, 'USD', (bid) => {
    priced.push(bid)
    const changed = bid.fixed === undefined
    return {
      priceText: changed ? '0.75' : null,
      inText: '',
      outText: '',
      context: `c${priced.length}`,
      mode: 'revenue',
    }
  })
  // bids are priced as the entries are read
  const entries = answer.ok
    ? [...answer.entries].map(({ id, price, context }) => ({
        id,
        modified_price: JSON.parse(price) as number,
        svc_opd: context,
      }))
    : []
  return { answer: answer.ok ? { ...answer, entries } : answer, priced }
}
const bid = (more: object = {}) => ({ id: 'b1', price: 1, dsp_id: 'd', price_dsp: 1.2, ...more })
const offer = (bids: unknown[], more: object = {}) => ({
  seatbid: [{ seat: 's', bid: bids }],
  ...more,
})

t.test('an empty body is a fault, also before any other document', async (t) => {
  t.match(call('').answer, { ok: false, status: 400 })
})

t.test('one entry a bid, in order, across seats', async (t) => {
  const { answer } = call({
    seatbid: [
      { bid: [bid(), bid({ id: 'b2', price: 0 })] },
      { bid: [] },
      { bid: [bid({ id: 'b3' })] },
    ],
  })
  t.strictSame(answer, {
    ok: true,
    withoutImp: true,
    entries: [
      { id: 'b1', modified_price: 0.75, svc_opd: 'c1' },
      { id: 'b2', modified_price: 0, svc_opd: 'c2' },
      { id: 'b3', modified_price: 0.75, svc_opd: 'c3' },
    ],
  })
})

t.test('what pricing receives', async (t) => {
  const imp = [{ id: '1', bidfloor: 0.6, tagid: 'top', banner: { w: 300, h: 250 } }]
  const site = { domain: 'news.example', publisher: { id: 'p' } }
  const { priced } = call(offer([bid({ impid: '1' })], { id: 'rq', imp, site }))
  t.match(priced[0], {
    auction: 'rq',
    floor: 0.6,
    floorText: '0.6',
    priceText: '1',
    priceDspText: '1.2',
    features: { dsp: 'd', seat: 's', domain: site.domain, publisher: 'p', placement: 'top' },
  })
  t.equal(priced[0]?.fixed, undefined)
})

t.test('the inbound price is price, or price_dsp where it is absent', async (t) => {
  for (const [fields, priceText] of [
    ['"price_dsp":2.50', '2.50'],
    ['"price":null,"price_dsp":3', '3'],
    ['"price":4,"price_dsp":3', '4'],
  ])
    t.match(call(`{"seatbid":[{"bid":[{"id":"a",${fields}}]}]}`).priced, [{ priceText }])
})

const imps = (more: object = {}) => ({ imp: [{ id: '1', ...more }] })
const deals = (deal: object) => imps({ pmp: { deals: [{ id: 'd1', ...deal }] } })
const stays: [string, string | undefined, object, Record<string, unknown>?][] = [
  ['no imp, no deal', undefined, offer([bid()])],
  ['no imp, a deal', 'unknown_deal', offer([bid({ dealid: 'x' })])],
  ['no imp, an empty deal', undefined, offer([bid({ dealid: '' })])],
  ['no imp, deals off', undefined, offer([bid()]), { deals: false }],
  ['no imp, audio', 'audio', offer([bid({ mtype: 3 })])],
  ['no imp, audio allowed', undefined, offer([bid({ mtype: 3 })]), { audio: true }],
  ['price 0', 'no_price', offer([bid({ price: 0 })])],
  ['imp unknown', 'unknown_imp', offer([bid({ impid: '2' })], imps())],
  ['imp known', undefined, offer([bid({ impid: '1' })], imps())],
  ['no impid beside imps', 'unknown_imp', offer([bid()], imps())],
  ['audio offered', 'audio', offer([bid({ impid: '1' })], imps({ audio: {} }))],
  ['a known deal', undefined, offer([bid({ impid: '1', dealid: 'd1' })], deals({}))],
  ['a fixed deal', 'fixed_price', offer([bid({ impid: '1', dealid: 'd1' })], deals({ at: 3 }))],
  [
    'a guaranteed deal',
    'fixed_price',
    offer([bid({ impid: '1', dealid: 'd1' })], deals({ guar: 1 })),
  ],
  [
    'deals off',
    'excluded',
    offer([bid({ impid: '1', dealid: 'd1' })], deals({})),
    { deals: false },
  ],
  [
    'floor in another currency',
    'currency',
    offer([bid({ impid: '1' })], { ...imps({ bidfloor: 1 }), cur: 'EUR' }),
  ],
  [
    'cur as the request lists it',
    'currency',
    offer([bid({ impid: '1' })], { ...imps({ bidfloor: 1 }), cur: ['EUR'] }),
  ],
  [
    'cur lists several',
    undefined,
    offer([bid({ impid: '1' })], { ...imps({ bidfloor: 1 }), cur: ['EUR', 'USD'] }),
  ],
  ['seat excluded', 'excluded', offer([bid()]), { exclude: { seats: ['s'] } }],
  [
    'advertiser excluded',
    'excluded',
    offer([bid({ adomain: ['a.example'] })]),
    { exclude: { adomains: ['a.example'] } },
  ],
]
for (const [name, reason, body, opd] of stays)
  t.test(`a context for each bid, changed or not: ${name}`, async (t) => {
    const { answer, priced } = call(body, opd)
    t.equal(answer.ok && answer.entries.length, 1)
    t.equal(priced[0]?.fixed, reason)
  })

const request = {
  id: 'rq',
  imp: [{ id: '1', bidfloor: 0.6, tagid: 'top', banner: { w: 300, h: 250 } }],
  site: { domain: 'news.example', publisher: { id: 'p' } },
  device: { geo: { country: 'DEU' } },
}

t.test('a bidrequest object is read as its members in the body are', async (t) => {
  const one = bid({ impid: '1' })
  const { priced: asMembers } = call(offer([one], { ...request, cur: ['EUR'] }))
  t.match(asMembers, [{ currency: 'EUR', fixed: 'currency' }])
  for (const body of [
    offer([one], { bidrequest: { ...request, cur: ['EUR'] } }),
    { bidrequest: { ...request, cur: ['EUR'] }, ...offer([one]) },
    offer([one], { bidrequest: { ...request, cur: ['EUR'] }, id: 'response', site: null }),
    offer([one], { ...request, bidrequest: { cur: ['EUR'] } }),
    offer([one], { ...request, cur: ['EUR'], bidrequest: null }),
  ]) {
    const { answer, priced } = call(body)
    t.match(answer, { ok: true, withoutImp: false })
    t.strictSame(priced, asMembers)
  }
  const { priced } = call(offer([one], { bidrequest: request }))
  t.match(priced[0], { auction: 'rq', floor: 0.6, floorText: '0.6', features: { country: 'DEU' } })
})

t.test("cur as a text is the response's, beside the list of the request", async (t) => {
  const bidrequest = { ...request, cur: ['USD', 'EUR'] }
  t.match(call(offer([bid({ impid: '1' })], { cur: 'EUR', bidrequest })).priced, [
    { currency: 'EUR' },
  ])
  t.match(call(offer([bid({ impid: '1' })], { bidrequest })).priced, [{ currency: 'USD' }])
})

t.test('extensions are ignored, bids without imp are reported', async (t) => {
  const ext = { imp: [{ bidfloor: 2 }], bidfloor: 1 }
  const { answer, priced } = call(offer([bid({ ext })], { ext, imps: 4, extra: { bidfloor: 0 } }))
  t.match(answer, { ok: true, withoutImp: true })
  t.match(priced, [{ floor: 0 }])
  t.match(call(offer([])).answer, { ok: true, withoutImp: false })
  const known = offer([bid({ impid: '1', bidfloor: 3 })], { ...request, more: { imp: [{}] } })
  t.match(call(known).priced, [{ floor: 0.6 }])
})

const place = '/seatbid/0/bid/0'
const faults: [string, string | object, string[], Record<string, unknown>?][] = [
  ['no JSON', '{', ['']],
  ['nothing', '', ['']],
  ['a list', '[]', ['']],
  ['a byte-order mark', '\ufeff{"seatbid":[]}', ['']],
  ['no seatbid', {}, ['/seatbid']],
  ['seatbid an object', { seatbid: {} }, ['/seatbid']],
  ['a seat that is a number', { seatbid: [4] }, ['/seatbid/0']],
  ['no bid list', { seatbid: [{ bid: [] }, {}] }, ['/seatbid/1/bid']],
  ['a bid that is null', offer([null]), [place]],
  ['no id', offer([{ price: 1 }]), [`${place}/id`]],
  ['an empty id', offer([bid({ id: '' })]), [`${place}/id`]],
  ['id a number', offer([bid({ id: 7 })]), [`${place}/id`]],
  ['no price', offer([{ id: 'a' }]), [`${place}/price`]],
  ['price a text', offer([bid({ price: '1' })]), [`${place}/price`]],
  [
    'price_dsp minus 0',
    '{"seatbid":[{"bid":[{"id":"a","price":1,"price_dsp":-0}]}]}',
    [`${place}/price_dsp`],
  ],
  ['price below 0', offer([bid({ price: -1 })]), [`${place}/price`]],
  ['price beyond numbers', '{"seatbid":[{"bid":[{"id":"a","price":1e999}]}]}', [`${place}/price`]],
  ['price_dsp a list', offer([bid({ price_dsp: [] })]), [`${place}/price_dsp`]],
  ['dsp_id an object', offer([bid({ dsp_id: {} })]), [`${place}/dsp_id`]],
  ['imp no list', offer([bid()], { imp: {} }), ['/imp']],
  ['bidrequest no object', offer([bid()], { bidrequest: [] }), ['/bidrequest']],
  ['imp in bidrequest no list', offer([bid()], { bidrequest: { imp: {} } }), ['/bidrequest/imp']],
  [
    'members in both places',
    offer([bid()], { ...request, cur: ['USD'], bidrequest: { ...request, cur: ['USD'] } }),
    ['imp', 'site', 'device', 'cur'].map((key) => `/bidrequest/${key}`),
  ],
  ['bidrequest twice', '{"seatbid":[],"bidrequest":{},"bidrequest":{}}', ['/bidrequest']],
  [
    'cur twice in bidrequest',
    '{"seatbid":[],"bidrequest":{"cur":["USD"],"cur":["EUR"]}}',
    ['/bidrequest/cur'],
  ],
  ['imp in another object', offer([bid()], { 'bid/request': request }), ['/bid~1request/imp']],
  ['a floor in the bid', offer([bid({ bidfloor: 0.5 })]), [`${place}/bidfloor`]],
  ['a floor in the body', offer([bid()], { bidfloor: '0.5' }), ['/bidfloor']],
  ['a key twice', '{"seatbid":[{"bid":[{"id":"a","price":1,"price":2}]}]}', [`${place}/price`]],
  ['internal ids: impid', offer([bid()]), [`${place}/impid`], { internalIds: true }],
  [
    'internal ids: both',
    offer([{ price: 1 }]),
    [`${place}/id`, `${place}/impid`],
    { internalIds: true },
  ],
  [
    'all of them',
    offer([{}, bid(), { id: 'a' }]),
    [`${place}/id`, `${place}/price`, '/seatbid/0/bid/2/price'],
  ],
]
for (const [name, body, pointers, opd] of faults)
  t.test(`a fault with its place: ${name}`, async (t) => {
    const { answer, priced } = call(body, opd)
    t.match(answer, { ok: false, status: 400 })
    t.strictSame(!answer.ok && answer.faults.map(({ pointer }) => pointer), pointers)
    t.equal(priced.length, 0, 'no bid is priced if one has a fault')
  })

t.test('403 where OPD is not enabled', async (t) => {
  for (const opd of [null, { enabled: false }])
    t.match(call(offer([bid()]), opd).answer, { ok: false, status: 403 })
  const price = () => t.fail('priced') as never
  t.match(standalone(Buffer.from('{}'), 'invalid', null, 'USD', price), { ok: false, status: 403 })
  t.match(call(offer([bid()]), { enabled: 'shadow' }).answer, { ok: true })
})
