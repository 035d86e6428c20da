import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import type { LiveIntegration, LiveMode } from '../../../admin/fleet/live-schema.ts'
import { mulberry32 } from '../../../opd/base/random.ts'
import { createTally, summary } from '../../../service/demo/figures.ts'
import { runDemo } from '../../../service/demo/main.ts'
import { createNotices, impressionQuery, sendTraffic } from '../../../service/demo/platform.ts'
import { makeRequest } from '../../../service/demo/requests.ts'
import { createDemoSupplier } from '../../../service/demo/supplier.ts'
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
    onResponse: () => {
      if (++answers === 100) stop.abort()
    },
    onFailure: (error) => t.fail(error.message),
  })
  t.ok(answers >= 100)
})

t.test('a notice is made of the answer’s own nurl', async (t) => {
  const nurl =
    'https://win.demo.example/win?bid_id=b1&price=${AUCTION_PRICE}&svc_opd=AbC-_&in=2.4&out=2.2'
  t.equal(String(impressionQuery(nurl, 2.2, 'demo')), 'ssp=demo&bid_id=b1&price=2.2&svc_opd=AbC-_')
})

t.test('notices are lost and doubled as asked, and close() drops what waits', async (t) => {
  let received = 0
  const server = createServer((_request, response) => {
    received++
    response.end('{"status":"attributed"}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const adminUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const base = { adminUrl, supplier: 'demo', delay: 1 }
  const win = (notices: ReturnType<typeof createNotices>) => {
    for (let n = 0; n < 100; n++) notices.reportWin(`https://w.example/?bid_id=${n}`, 1)
  }
  const doubled = createNotices({ ...base, loss: 0, duplicates: 1 })
  win(doubled)
  await until(() => received >= 200)
  await doubled.close()
  const lossy = createNotices({ ...base, loss: 0.5, duplicates: 0 })
  win(lossy)
  await until(() => received > 200)
  const late = createNotices({ ...base, delay: 1e6, loss: 0, duplicates: 0 })
  win(late)
  await late.close()
  await lossy.close()
  t.ok(received > 200 && received < 300, `${received} notices`)
})

t.test('the tally compares a lowered bid with the original bid', async (t) => {
  const tally = createTally({ win: ({ price }) => (price > 1 ? { cleared: price } : null) })
  const bid = (price: number, was: number) => ({
    id: 'a',
    impid: '1',
    price,
    nurl: `https://w.example/?in=${was}&svc_opd=x`,
  })
  t.equal(tally.count('p', { id: 'r1', seatbid: [{ bid: [bid(1.5, 2)] }] }).length, 1)
  t.equal(tally.count('p', { id: 'r2', seatbid: [{ bid: [bid(0.9, 1.1)] }] }).length, 0)
  t.same(tally.counts, { winsUnchanged: 2, keptWins: 1 })
})

t.test(
  'the figures are those of the console, with their floors, and unknown is not 0',
  async (t) => {
    const kept = {
      at: 0.978,
      lower: 0.951,
      upper: 1.006,
      floor: 0.9,
      known: true,
      level: 'ok',
    } as const
    const known = {
      kept,
      keptSpend: { ...kept, floor: 0.85 },
      uplift: { at: 0.046, lower: 0.03, upper: 0.06 },
    }
    const live = (mode: Partial<LiveMode>) => ({ modes: [mode] }) as LiveIntegration
    const today = { decided: 20, wins: 4, revenue: '0.02', margin: '0.0011', currency: 'USD' }
    const { counts } = createTally({ win: () => null })
    const tally = { counts: { winsUnchanged: 10, keptWins: 9 } }
    const failures = { failed: 0, noBids: 0 }
    t.same(summary({ live: live(known), today }, tally, failures), [
      'today 20 bids, 4 wins, margin USD 0.0011 (5.5 % of revenue)',
      '  kept wins 97.8 % (95.1 % to 100.6 %, floor 90.0 %) | kept spend 97.8 % (95.1 % to 100.6 %, floor 85.0 %)',
      '  uplift USD 0.0460 for 1,000 bids (0.0300 to 0.0600)',
      '  in truth 90.0 % of the wins are kept',
    ])
    const wide = { ...known, kept: { ...kept, known: false } }
    const early = summary({ live: live(wide), today: null }, { counts }, failures)
    t.match(
      early.join('\n'),
      /^today no bids yet\n.*kept wins not known yet.*\n.*uplift not known yet/,
    )
  },
)

t.test('a demo without a service ends when aborted, and says what failed', async (t) => {
  const stop = new AbortController()
  const lines: string[] = []
  const nowhere = 'http://127.0.0.1:1'
  const out = {
    write(text: string) {
      lines.push(text)
      stop.abort()
    },
  }
  const { signal } = stop
  await runDemo({
    proxyUrl: nowhere,
    adminUrl: nowhere,
    supplier,
    signal,
    figures: () => Promise.reject(new Error('no service')),
    out,
    every: 100,
    rate: 50,
  })
  t.match(lines[0], /the figures cannot be read: no service \| [1-9]\d* requests failed/)
})
