import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { mulberry32 } from '../../../opd/shared/random.ts'
import { runDemo } from '../../../service/demo/main.ts'
import { createNotices, impressionQuery } from '../../../service/demo/notices.ts'
import { makeRequest } from '../../../service/demo/requests.ts'
import { read } from '../../../service/demo/scrape.ts'
import { createDemoSupplier } from '../../../service/demo/supplier.ts'
import { createTally, interval } from '../../../service/demo/tally.ts'
import { sendTraffic } from '../../../service/demo/traffic.ts'
import { until } from '../../support/until.ts'

const supplier = await createDemoSupplier()
t.teardown(() => supplier.close())

t.test('requests are 2.7 to 3 KB of JSON', async (t) => {
  const random = mulberry32(2)
  for (let n = 0; n < 200; n++) {
    const { body } = makeRequest(`r${n}`, supplier.publishers[n % 30]!, 'mix', random)
    t.ok(body.length >= 2700 && body.length <= 3000, `${body.length} bytes`)
    t.match(body, /"auction":9007199254740993[,}]/)
  }
})

t.test('traffic keeps its rate over keep-alive connections', async (t) => {
  const stop = new AbortController()
  let answers = 0
  await sendTraffic({
    url: supplier.url,
    rate: 500,
    publishers: supplier.publishers,
    signal: stop.signal,
    onAnswer: () => {
      if (++answers === 100) stop.abort()
    },
    onFailure: (error) => t.fail(error.message),
  })
  t.ok(answers >= 100)
})

t.test('a notice is made of the answer’s own nurl', async (t) => {
  const nurl =
    'https://win.demo.example/win?bid_id=b1&price=${AUCTION_PRICE}&svc_opd=AbC-_&in=2.4&out=2.2'
  t.equal(impressionQuery(nurl, 2.2, 'demo'), 'ssp=demo&bid_id=b1&price=2.2&svc_opd=AbC-_')
})

t.test('notices are lost and doubled as told, and close() drops what waits', async (t) => {
  let received = 0
  const server = createServer((_request, response) => {
    received++
    response.end('{"status":"attributed"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const adminUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const base = { adminUrl, supplier: 'demo', delay: 1 }
  const notices = createNotices({ ...base, loss: 0.5, duplicates: 0.5 })
  for (let n = 0; n < 100; n++) notices.won(`https://w.example/?bid_id=${n}`, 1)
  t.ok(notices.counts.lost > 20 && notices.counts.duplicated > 5)
  const due = 100 - notices.counts.lost + notices.counts.duplicated
  await until(() => received >= due)
  await notices.close()
  t.equal(received, due)
  t.equal(notices.counts.byStatus['attributed'], due)
  const late = createNotices({ ...base, delay: 1e6, loss: 0, duplicates: 0 })
  late.won('https://w.example/?bid_id=x', 1)
  await late.close()
  t.equal(late.counts.sent, 0)
})

t.test('the tally judges a lowered bid against the bid as it was', async (t) => {
  const tally = createTally({ win: ({ price }) => (price > 1 ? { cleared: price } : null) })
  const bid = (price: number, was: number) => ({
    id: 'a',
    impid: '1',
    price,
    nurl: `https://w.example/?in=${was}&svc_opd=x`,
  })
  t.equal(tally.answer('p', { id: 'r1', seatbid: [{ bid: [bid(1.5, 2)] }] }).length, 1)
  t.equal(tally.answer('p', { id: 'r2', seatbid: [{ bid: [bid(0.9, 1.1)] }] }).length, 0)
  t.match(tally.counts, { wins: 1, winsUnchanged: 2, keptWins: 1, lowered: 2 })
  t.equal(tally.money.revenue - tally.money.cleared, 0.5)
  t.ok(interval(97, 100)[0] < 0.97 && interval(97, 100)[1] > 0.97)
})

t.test('the summary shows what the service publishes of the integration', async (t) => {
  const text = [
    'bidweir_uplift{ssp="demo",mode="revenue"} 0.081',
    'bidweir_uplift_lower{ssp="demo",mode="revenue"} 0.07',
    'bidweir_uplift_upper{ssp="demo",mode="revenue"} 0.09',
    'bidweir_uplift{ssp="acme",mode="revenue"} 1',
    'bidweir_kept_win_rate{mode="revenue",ssp="demo"} NaN',
  ].join('\n')
  t.same(read(text, 'demo'), ['uplift per bid, CPM 0.081 (0.070 to 0.090)'])
  t.same(read(text, 'nobody'), [])
})

t.test('a demo without a service ends when it is told, and says what failed', async (t) => {
  const stop = new AbortController()
  const lines: string[] = []
  const nowhere = 'http://127.0.0.1:1'
  const out = {
    write(text: string) {
      lines.push(text)
      if (lines.length === 2) stop.abort()
    },
  }
  const { signal } = stop
  await runDemo({
    proxyUrl: nowhere,
    adminUrl: nowhere,
    supplier,
    signal,
    out,
    every: 100,
    rate: 50,
  })
  t.match(lines[1], /failed/)
})
