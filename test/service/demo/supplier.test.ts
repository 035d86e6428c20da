import t from 'tap'
import { request } from 'undici'
import { mulberry32 } from '../../../opd/base/random.ts'
import { makeRequest } from '../../../service/demo/requests.ts'
import { createDemoSupplier } from '../../../service/demo/supplier.ts'

const supplier = await createDemoSupplier()
t.teardown(() => supplier.close())

async function ask(body: unknown): Promise<{ status: number; text: string }> {
  const answer = await request(supplier.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { status: answer.statusCode, text: await answer.body.text() }
}

interface Answer {
  cur: string
  seatbid: { seat: string; bid: { impid: string; price: number; nurl: string; mtype: number }[] }[]
}
const bidsOf = (text: string) => (JSON.parse(text) as Answer).seatbid.flatMap((seat) => seat.bid)

t.test('a request whose id starts with curl- always has a bid well above the floor', async (t) => {
  for (let n = 0; n < 50; n++) {
    const imp = [{ id: '1', banner: { w: 300, h: 250 }, bidfloor: 0.5 }]
    const { status, text } = await ask({ id: `curl-${n}`, imp })
    t.equal(status, 200)
    const [bid] = bidsOf(text)
    t.ok(bid!.price >= 2)
    t.match(bid!.nurl, /svc_opd=\$\{SVC_OPD_CONTEXT\}/)
  }
})

t.test('every format is answered in its own way, and no-bids are 204', async (t) => {
  const random = mulberry32(1)
  const types = new Set<number>()
  const statuses = new Set<number>()
  const seats = new Set<string>()
  for (let n = 0; n < 300; n++) {
    const { body } = makeRequest(`r${n}`, supplier.publishers[n % 30]!, 'mix', random)
    const { status, text } = await ask(body)
    statuses.add(status)
    if (status !== 200) continue
    for (const bid of bidsOf(text)) types.add(bid.mtype)
    for (const { seat } of (JSON.parse(text) as Answer).seatbid) seats.add(seat)
    t.match(text, /9007199254740993117/, 'ids past 2^53 keep their digits')
  }
  t.same([...types].sort(), [1, 2, 3, 4])
  t.same([...statuses].sort(), [200, 204])
  t.ok(seats.size > 1)
})

t.test('the answer is in the currency that was asked for', async (t) => {
  const imp = [{ id: '1', banner: {}, bidfloor: 0.5 }]
  const { text } = await ask({ id: 'curl-eur', cur: ['EUR'], imp })
  t.equal((JSON.parse(text) as Answer).cur, 'EUR')
})

t.test('the same request has the same answer', async (t) => {
  const { body } = makeRequest('same', supplier.publishers[0]!, 'banner', mulberry32(9))
  t.same(await ask(body), await ask(body))
})

t.test('what is not a bid request is refused, whatever it is', async (t) => {
  const strange = [
    '',
    '{',
    '[]',
    'null',
    '{"id":"a"}',
    '{"id":"a","imp":[null]}',
    '{"id":"curl-","imp":[{"id":"1","banner":null}]}',
  ]
  for (const body of strange) t.equal((await ask(body)).status, 400, body)
  t.equal((await request(supplier.url)).statusCode, 400)
})

t.test('a lower price wins less often, and never where a higher one lost', async (t) => {
  const wins = (factor: number) =>
    Array.from({ length: 2000 }, (_, n) =>
      supplier.win({ auction: `a${n}`, imp: '1', publisher: 'pub-1', price: 1.4 * factor }),
    ).map((win) => win !== null)
  const [high, low] = [wins(1), wins(0.7)]
  t.ok(low.filter(Boolean).length < high.filter(Boolean).length)
  t.notOk(low.some((won, n) => won && !high[n]))
})
