import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import type { Caller } from '../../../admin/http/roles.ts'
import { createAdmin } from '../../../admin/http/server.ts'
import { decisions } from '../../../admin/prices/decisions.ts'
import { standalone } from '../../../admin/prices/standalone.ts'
import { testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'

const owners: Readonly<Record<string, string>> = { acme: 'media', other: 'someone', off: 'media' }

async function impressionsApi(t: Test) {
  const warnings: object[] = []
  const log = { info() {}, warn: (fields: object) => void warnings.push(fields), error() {} }
  const world = testEngine({
    log,
    integrations: [
      integration('acme'),
      integration('other'),
      { id: 'off', opd: null, notices: 'win' },
    ],
  })
  const deps = {
    engine: world.engine,
    account: (supplier: string) => owners[supplier],
    authenticate: () => async (request: object) => {
      const caller: Caller = { subject: 'u', account: 'media', roles: new Set(['api']) }
      Object.assign(request, { caller })
    },
  }
  const plugins = [standalone(deps), decisions(deps)]
  const admin = createAdmin({ listen: '127.0.0.1:0', log, plugins })
  const { port } = await admin.listen()
  t.teardown(() => admin.close())
  const url = `http://127.0.0.1:${port}`
  const post = async (name: string, body: string, type = 'application/json') => {
    const headers = { 'content-type': type }
    const response = await fetch(`${url}/opd/${name}`, { method: 'POST', headers, body })
    return { http: response.status, headers: response.headers, body: await response.json() }
  }
  const get = async (path: string) => {
    const response = await fetch(`${url}${path}`)
    return { http: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  return { ...world, post, get, url, warnings }
}

const bids = (...bid: object[]) => JSON.stringify({ seatbid: [{ bid }] })

t.test('one entry for each bid, in order, with a context of its own', async (t) => {
  const { post, engine } = await impressionsApi(t)
  const { http, body } = await post(
    'acme_yesbid',
    bids(
      { id: 'a', impid: '1', price: 2, dsp_id: 'd', price_dsp: 2.5 },
      { id: 'b', impid: '1', price: 1, dsp_id: 'd', price_dsp: 1.5, dealid: 'deal' },
      { id: 'c', impid: '1', dsp_id: 'd', price_dsp: 3 },
    ),
  )
  t.equal(http, 200)
  const entries = body as { id: string; modified_price: number; svc_opd: string }[]
  t.same(
    entries.map(({ id, modified_price }) => [id, modified_price]),
    [
      ['a', 1.8],
      ['b', 1],
      ['c', 2.7],
    ],
  )
  for (const { id, svc_opd } of entries)
    t.match(await engine.findDecision({ bidId: id, svcOpd: svc_opd, ssp: undefined }), {
      by: 'context',
    })
  const deal = engine.explain(entries[1]!.svc_opd, 'b').record
  t.match(deal, { arm: 'fixed', trains: false, outBa: '1' })
})

t.test('refusals are problem documents', async (t) => {
  const { post, url } = await impressionsApi(t)
  const good = bids({ id: 'a', impid: '1', price: 2, dsp_id: 'd', price_dsp: 2 })
  const cases: [string, string, string, number][] = [
    ['off_yesbid', good, 'application/json', 403],
    ['nobody_yesbid', good, 'application/json', 404],
    ['other_yesbid', good, 'application/json', 404],
    ['acme', good, 'application/json', 404],
    ['_yesbid', good, 'application/json', 404],
    ['acme_yesbid', '{', 'application/json', 400],
    ['acme_yesbid', '', 'application/json', 400],
    ['acme_yesbid', '{"seatbid":[{"bid":[{"id":1}]}]}', 'application/json', 400],
    ['acme_yesbid', good, 'text/plain', 415],
    ['acme_yesbid', ' '.repeat(1024 * 1024 + 1), 'application/json', 413],
  ]
  for (const [name, body, type, status] of cases) {
    const answer = await post(name, body, type)
    t.equal(answer.http, status, `${name} ${status}`)
    t.match(answer.headers.get('content-type'), /^application\/problem\+json/)
    t.match(answer.body, { status })
  }
  const get = await fetch(`${url}/opd/acme_yesbid`)
  t.equal(get.status, 405)
  t.equal(get.headers.get('allow'), 'POST')
})

t.test('bids without imp are logged once for each integration', async (t) => {
  const { post, warnings } = await impressionsApi(t)
  const priced = (id: string) => ({ id, impid: '1', price: 2 })
  const inner = { seatbid: [{ bid: [priced('a')] }], bidrequest: { imp: [{ id: '1' }] } }
  t.equal((await post('acme_yesbid', JSON.stringify(inner))).http, 200)
  t.same(warnings, [])
  for (const id of ['b', 'c']) t.equal((await post('acme_yesbid', bids(priced(id)))).http, 200)
  t.same(warnings, [{ ssp: 'acme' }])
  const both = { ...inner, imp: [{ id: '1', bidfloor: 1 }] }
  t.match(await post('acme_yesbid', JSON.stringify(both)), {
    http: 400,
    body: { code: 'malformed', errors: [{ pointer: '/bidrequest/imp' }] },
  })
})

t.test('the explain call', async (t) => {
  const { post, get } = await impressionsApi(t)
  const price = { impid: '1', price: 2, dsp_id: 'd', price_dsp: 2 }
  const { body } = await post('acme_yesbid', bids({ id: 'a/b c', ...price }))
  const { svc_opd } = (body as { svc_opd: string }[])[0]!
  const good = await get(`/api/svc/decisions/${svc_opd}?bid_id=${encodeURIComponent('a/b c')}`)
  t.equal(good.http, 200)
  t.match(good.body, {
    bid_id: 'a/b c',
    ssp: 'acme',
    arm: 'treated',
    in_ba: '2',
    out_ba: '1.8',
    price_dsp: '2',
    factor: 0.9,
    propensity: 0.5,
    model_version: 7,
  })
  t.equal((await get(`/api/svc/decisions/${svc_opd}`)).http, 400)
  t.equal((await get(`/api/svc/decisions/${svc_opd}?bid_id=b`)).http, 404)
  t.equal((await get('/api/svc/decisions/forged?bid_id=b')).http, 404)
})

t.test('a decision of another account is 404', async (t) => {
  const { engine, get } = await impressionsApi(t)
  const body = bids({ id: 'a', impid: '1', price: 2, dsp_id: 'd', price_dsp: 2 })
  const answer = engine.priceStandalone('other', Buffer.from(body))
  const svcOpd = answer.ok ? [...answer.entries][0]!.context : ''
  t.not(svcOpd, '')
  t.equal((await get(`/api/svc/decisions/${svcOpd}?bid_id=a`)).http, 404)
})

t.test('prices are the digits of money, not doubles; both paths; no encodings', async (t) => {
  const { url } = await impressionsApi(t)
  const send = (path: string, body: string | Uint8Array<ArrayBuffer>, more = {}) =>
    fetch(`${url}/opd/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...more },
      body,
    })
  const prices = ['12345678901234567890.55', '0.12345678901234567891', '1.10', '0']
  const body = JSON.stringify({ seatbid: [{ bid: [] }] }).replace(
    '[]',
    `[${prices.map((price, n) => `{"id":"b${n}","dealid":"d","price":${price}}`)}]`,
  )
  for (const path of ['acme_yesbid', 'acme_yesbid/']) {
    const answer = await send(path, body)
    t.equal(answer.headers.get('cache-control'), 'no-store')
    const sent = [...(await answer.text()).matchAll(/"modified_price":([^,]+)/g)]
    t.same(
      sent.map(([, price]) => price),
      prices,
    )
  }
  const coded = await send('acme_yesbid', gzipSync(body), { 'content-encoding': 'gzip' })
  t.equal(coded.status, 415)
  t.equal(coded.headers.get('accept-encoding'), 'identity')
  const get = (path: string) => fetch(`${url}/opd/${path}`)
  t.equal((await get('acme_yesbid')).status, 405)
  t.equal((await get('acme')).status, 404, 'no path of ours')
})

t.test('ten thousand bids leave turns to others', async (t) => {
  const { engine } = await impressionsApi(t)
  const answer = engine.priceStandalone(
    'acme',
    Buffer.from(bids(...Array.from({ length: 10_000 }, (_, n) => ({ id: `b${n}`, price: 1 })))),
  )
  if (!answer.ok) throw new Error('refused')
  const before = engine.stats.supplierStats('acme').modes.revenue.sums('treated').bids
  const entries = answer.entries[Symbol.iterator]()
  t.match(entries.next().value, { id: 'b0', price: '0.9' })
  t.equal(
    engine.stats.supplierStats('acme').modes.revenue.sums('treated').bids,
    before + 1,
    'one by one',
  )
})
