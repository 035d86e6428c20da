import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'

t.test('each bad parameter is named', async (t) => {
  const { send, tally } = await impressionsApi(t)
  const cases: [string, string[]][] = [
    ['', ['bid_id', 'price']],
    ['bid_id=&price=', ['bid_id', 'price']],
    ['bid_id=a&bid_id=a&price=1', ['bid_id']],
    ['bid_id=a&price=1&price=1', ['price']],
    ['bid_id=a&price=1&svc_opd=a&svc_opd=b', ['svc_opd']],
    ['bid_id=a&price=-1', ['price']],
    ['bid_id=a&price=1e3', ['price']],
    ['bid_id=a&price=0x10', ['price']],
    ['bid_id=a&price=1,5', ['price']],
    ['bid_id=a&price=NaN', ['price']],
    ['bid_id=a&price=%201', ['price']],
    ['bid_id=a&price=audit', ['price']],
    [`bid_id=a&price=${'9'.repeat(400)}`, ['price']],
    ['bid_id=a&price=${AUCTION_PRICE}', ['price']],
    ['bid_id=%24%7BAUCTION_BID_ID%7D&price=1', ['bid_id']],
    ['bid_id=a&price=1&price_dsp=x&event=click&cur=usd', ['cur', 'event', 'price_dsp']],
    ['bid_id=a&price=1&ssp=${SSP}&ssp=acme', ['ssp']],
  ]
  for (const [query, bad] of cases) {
    const response = await send(query)
    const body = (await response.json()) as { errors: { pointer: string }[] }
    t.equal(response.status, 400, query)
    t.equal(response.headers.get('content-type'), 'application/problem+json')
    t.equal(response.headers.get('cache-control'), 'no-store')
    t.same(
      body.errors.map(({ pointer }) => pointer),
      bad,
      query,
    )
  }
  t.same(tally(), { rejected: cases.length })
})

t.test('a macro that was not expanded is absent in optional parameters', async (t) => {
  const { engine, notify, lose, ledger } = await impressionsApi(t)
  const macro = (name: string) => `\${AUCTION_${name}}`
  const optional = {
    ssp: macro('SEAT_ID'),
    cur: macro('CURRENCY'),
    min_to_win: macro('MIN_TO_WIN'),
    event: '%24%7BEVENT%7D',
    price_dsp: macro('PRICE'),
  }
  const { svcOpd } = auction(engine, { id: 'b1' })
  const won = await notify({ bid_id: 'b1', price: '0.9', svc_opd: svcOpd, ...optional })
  t.match(won.body, { status: 'attributed', by: 'context' })
  t.match(ledger.rows, [{ event: 'win', price_dsp: null, cleared: '0.9' }])
  const lost = auction(engine, { id: 'b2' })
  const loss = { ssp: macro('SEAT_ID'), loss: macro('LOSS'), min_to_win: macro('MIN_TO_WIN') }
  const answer = await lose({ bid_id: 'b2', svc_opd: lost.svcOpd, ...loss })
  t.match(answer, { http: 200, body: { status: 'recorded' } })
})

t.test('a cleared price of 0 is refused, and a later price of the same win counts', async (t) => {
  const { engine, notify, ledger, tally } = await impressionsApi(t)
  const { svcOpd } = auction(engine, { id: 'b1' })
  const win = { bid_id: 'b1', svc_opd: svcOpd }
  for (const price of ['0', '0.00']) {
    const refused = await notify({ ...win, price })
    t.match(refused, {
      http: 422,
      body: { code: 'implausible_price', errors: [{ pointer: 'price' }] },
    })
  }
  t.match(await notify({ bid_id: 'unknown', price: '0' }), { http: 422 })
  t.match(
    ledger.rows.map(({ status, reason, margin }) => ({ status, reason, margin })),
    Array(2).fill({ status: 'rejected', reason: 'implausible_price', margin: null }),
  )
  t.match(await notify({ ...win, price: '0.9' }), { status: 'attributed' })
  t.same(tally(), { rejected: 3, attributed: 1 })
})

t.test('AUDIT is a test rendering', async (t) => {
  const { notify, ledger, tally } = await impressionsApi(t)
  t.same((await notify({ bid_id: 'a', price: 'AUDIT' })).body, { status: 'ignored', by: null })
  const both = { bid_id: 'a', price: 'AUDIT', price_dsp: 'AUDIT' }
  t.match((await notify(both)).body, { status: 'ignored' })
  const half = await notify({ ...both, price: '1' })
  t.match(half.body, { code: 'invalid_parameters', errors: [{ pointer: 'price_dsp' }] })
  t.same(ledger.rows, [])
  t.same(tally(), { ignored: 2, rejected: 1 })
})

t.test('only GET counts', async (t) => {
  const { engine, send, ledger, counters } = await impressionsApi(t)
  const won = auction(engine, { id: 'b1' })
  for (const method of ['HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const response = await send(`bid_id=b1&price=1&svc_opd=${won.svcOpd}`, 'good', method)
    t.equal(response.status, 405, method)
    t.equal(response.headers.get('allow'), 'GET')
    t.equal(response.headers.get('cache-control'), 'no-store')
  }
  t.same(ledger.rows, [])
  t.equal(counters.received, 0)
})

t.test('any bid id that a supplier may send', async (t) => {
  const { engine, notify, ledger } = await impressionsApi(t)
  for (const id of ['\0', 'a+b/c==', 'ü 💸', 'x'.repeat(6000), '__proto__', '%', '"\\', 'bid:b']) {
    const won = auction(engine, { id })
    const answer = await notify({ bid_id: id, price: '0.9', svc_opd: won.svcOpd })
    t.match(answer.body, { status: 'attributed', by: 'context' }, id.slice(0, 20))
  }
  for (const ssp of ['x'.repeat(8_000), '\0', 'no supplier', '']) {
    const answer = await notify({ bid_id: `ghost ${ssp.length}`, price: '1', ssp })
    t.match(answer.body, { status: 'unattributed' }, ssp.slice(0, 20))
  }
  t.ok(ledger.rows.every(({ bid_id, decision }) => !bid_id.includes('\0') && decision.length < 300))
})

t.test('a plus sign in a bid id that was not escaped', async (t) => {
  const { engine, send } = await impressionsApi(t)
  const won = auction(engine, { id: 'a+b/c==' })
  auction(engine, { id: 'd+e' })
  auction(engine, { id: 'f g' })
  for (const [query, by] of [
    [`bid_id=a+b/c==&price=0.9&svc_opd=${won.svcOpd}`, 'context'],
    ['bid_id=d+e&price=0.9', 'bid_log'],
    ['bid_id=f+g&price=0.9', 'bid_log'],
  ] as const)
    t.match(await (await send(query)).json(), { status: 'attributed', by }, query)
})

t.test('of two readings of a bid id the context tells which', async (t) => {
  const { engine, send, ledger } = await impressionsApi(t)
  const [plus, space] = [auction(engine, { id: 'x+y' }), auction(engine, { id: 'x y' })]
  for (const [{ svcOpd }, id] of [
    [plus, 'x+y'],
    [space, 'x y'],
  ] as const) {
    const answer = await (await send(`bid_id=x+y&price=0.9&svc_opd=${svcOpd}`)).json()
    t.match(answer, { status: 'attributed', by: 'context' }, id)
    t.match(ledger.rows.at(-1), { bid_id: id, margin: '0.1' })
  }
})

t.test(
  'an id with percent signs that was not escaped, and the other spelling of the path',
  async (t) => {
    const { engine, send, url } = await impressionsApi(t)
    const won = auction(engine, { id: 'YQ%3D%3D' })
    auction(engine, { id: '50%off+' })
    auction(engine, { id: 'c' })
    for (const [query, by] of [
      [`bid_id=YQ%3D%3D&price=0.9&svc_opd=${won.svcOpd}`, 'context'],
      ['price=0.9&bid_id=50%off+', 'bid_log'],
    ] as const)
      t.match(await (await send(query)).json(), { status: 'attributed', by }, query)
    const headers = { authorization: 'Bearer good' }
    const slashed = await fetch(`${url}/opd/imp/?bid_id=c&price=0.9`, { headers })
    t.match(await slashed.json(), { status: 'attributed' })
    t.equal((await fetch(`${url}/opd/imp/`, { method: 'POST' })).headers.get('allow'), 'GET')
  },
)

t.test('a query that is no text breaks nothing', async (t) => {
  const { url } = await impressionsApi(t)
  const { port } = new URL(url)
  for (const query of ['%', '%zz=%', 'bid_id=%ff%fe&price=1', '&&&===', '__proto__=1&price=1']) {
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(
      `GET /opd/imp?${query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nConnection: close\r\n\r\n`,
    )
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk
    })
    await once(socket, 'close')
    t.match(answer, /^HTTP\/1\.1 (200|400) /, query)
  }
})
