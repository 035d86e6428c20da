/** Long responses and requests: read, priced and written in slices, one document at a time, in memory that is asked for. */
import t from 'tap'
import { opdSchema } from '../../../opd/config.ts'
import { LongDocument, LongTurn } from '../../../opd/json/long-document.ts'
import type { unlimitedMemory } from '../../../opd/json/work-memory.ts'
import { rewriteInSlices } from '../../../opd/rewrite/rewrite.ts'

const macro = 'svc_opd=${SVC_OPD_CONTEXT}'
const bid = `{"id":"b","impid":"1","price":2,"nurl":"${macro}"}`
const listed = (element: string, count: number) => Array(count).fill(element).join(',')
const request = '{"id":"a","imp":[{"id":"1"}]}'

function started(
  text: string,
  options: { request?: string; memory?: typeof unlimitedMemory; inactive?: string[] } = {},
) {
  return rewriteInSlices({
    body: Buffer.from(text),
    request: () => Buffer.from(options.request ?? request),
    opd: opdSchema.parse({ enabled: true }),
    inactiveSeats: new Set(options.inactive),
    rates: null,
    base: 'USD',
    memory: options.memory,
    price: () => ({
      priceText: '1.5',
      inText: '2',
      outText: '1.5',
      context: 'CTX',
      mode: 'revenue',
    }),
  })
}

function run(text: string, options: Parameters<typeof started>[1] = {}) {
  const slices = started(text, options)
  for (let count = 1; ; count++) {
    const slice = slices.next()
    if (slice.done) return { ...slice.value, body: slice.value.body, count }
  }
}

t.test('a long response is changed as a short one is', async (t) => {
  const bodies = [
    `{"seatbid":[{"seat":"s","bid":[${listed(bid, 30)}]},{"bid":[${bid}],"seat":"x"}]}`,
    `{"seatbid":[{"bid":[{"adm":"a \\u0024{SVC_OPD_MODE} svc_opd=\\u0024{SVC_OPD_CONTEXT}","price":3.10,"impid":"1","id":7,"adomain":["a.example"]}]}],"cur":"USD"}`,
    `{"cur":"USD","seatbid":[{"bid":[${bid}],"bid":[${bid}]},{"bid":[${bid}]}]}`,
    `{"seatbid":[{"seat":"x","bid":[${bid}]},{"seat":"s","bid":[${bid}]},{"seat":"x","bid":[${bid}]}]}`,
    `{"seatbid":[{"bid":[${bid}]}],"seatbid":[{"bid":[${bid}]}]}`,
    `{"seatbid":[{"bid":[${bid},5,null,${bid}]}]}`,
  ]
  for (const text of bodies)
    for (const inactive of [[], ['x']])
      for (const length of [65_000, 131_072, 400_001]) {
        const pad = `"pad":"${'é'.repeat(length >> 1)}",`
        const short = run(text, { inactive })
        for (const [name, long, without] of [
          ['before', `{${pad}${text.slice(1)}`, (made: string) => made.replace(pad, '')],
          ['white space', `${' '.repeat(length)}${text}`, (made: string) => made.trimStart()],
        ] as const) {
          const result = run(long, { inactive })
          t.equal(without(String(result.body)), String(short.body), `${name}: ${text.slice(0, 40)}`)
          t.same(
            [result.removed, result.left, result.reason],
            [short.removed, short.left, short.reason],
          )
        }
      }
})

t.test('more than 1,000 seats are too large, whatever they are', async (t) => {
  for (const seat of ['{}', '5', '{"seat":"s"}']) {
    const most = `{"seatbid":[{"bid":[${bid}]},${listed(seat, 999)}]}`
    t.equal(run(most).reason, null, `1,000: ${seat}`)
    const text = `{"seatbid":[{"bid":[${bid}]},${listed(seat, 1000)}]}`
    for (const body of [text, `${' '.repeat(100_000)}${text}`]) {
      const result = run(body)
      t.equal(result.reason, 'too_large')
      t.equal(String(result.body), body)
      t.equal(run(body, { inactive: ['x'] }).unreadable, true)
    }
  }
})

t.test('no slice does more than a part of the work', async (t) => {
  const MiB = 1024 ** 2
  const filled = (text: string) => text.repeat(Math.floor((4 * MiB) / text.length))
  const bidWith = (members: string) =>
    `{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"nurl":"${macro}",${members}}]}]}`
  // The index alone takes 16 slices.
  const least: [string, string, number][] = [
    ['seats', `{"seatbid":[{"bid":[${bid}]},${filled('{},')}{}]}`, 17],
    ['bids', `{"seatbid":[{"bid":[${listed(bid, 50_000)}]}]}`, 1000],
    ['domains', bidWith(`"adomain":[${filled('"a",')}"a"]`), 200],
    ['macros', bidWith(`"adm":"${filled('${SVC_OPD_MODE}')}"`), 140],
    ['escapes', bidWith(`"adm":"${filled('\\u0041')}"`), 64],
    ['backslashes', bidWith(`"adm":"${filled('\\\\')}\\u0073"`), 64],
    ['backslashes without a macro', `{"x":"${filled('\\\\')}"}`, 16],
  ]
  for (const [name, text, slices] of least) t.ok(run(text).count >= slices, name)
  const imps = Array.from({ length: 60_000 }, (_, index) => `{"id":"i${index}"}`).join()
  const short = `{"seatbid":[{"bid":[${bid}]}]}`
  const long = run(short, { request: `{"id":"a","imp":[${imps},{"id":"1"}]}` })
  t.match(String(long.body), 'svc_opd=CTX')
  t.ok(long.count >= 60, 'a request with 60,000 imps')
})

t.test(
  'one long document is read at a time, and one that is given up does not hold the others',
  async (t) => {
    const long = `{"pad":"${'x'.repeat(500_000)}","seatbid":[{"bid":[${bid}]}]}`
    const first = started(long)
    t.equal(first.next().value, undefined, 'the first one has the turn')
    const second = started(long)
    const waits = second.next().value
    t.ok(waits instanceof Promise, 'the second one waits')
    const third = started(long)
    const waitsToo = third.next().value
    second.return()
    first.return()
    await waits
    await waitsToo
    let slice = third.next()
    while (!slice.done) slice = third.next()
    t.match(String((slice.value as { body: Buffer }).body), 'svc_opd=CTX')
    t.equal(run(long).reason, null, 'the turn is free')
  },
)

t.test('without memory a long response is too large, and a long request is not read', async (t) => {
  const long = `{"pad":"${'x'.repeat(500_000)}","seatbid":[{"bid":[${bid}]}]}`
  const none = { reserve: () => false, keep: () => true }
  t.equal(run(long, { memory: none }).reason, 'too_large')
  const short = `{"seatbid":[{"bid":[${bid}]}]}`
  const unread = run(short, { memory: none, request: `${' '.repeat(100_000)}${request}` })
  t.equal(String(unread.body), short)
  t.equal(run(long).reason, null)
})

t.test('the memory of the index is asked for before it grows', async (t) => {
  const turn = new LongTurn()
  t.equal(turn.enter(), null)
  const asked: number[] = []
  const keep = (bytes: number) => {
    asked.push(bytes)
    return false
  }
  const dense = Buffer.from(`[${'0,'.repeat(4_000_000)}0]`)
  const document = new LongDocument(dense, { reserve: () => true, keep })
  let state = document.index()
  while (state === 'more') state = document.index()
  t.equal(state, 'too_large')
  t.equal(asked.length, 1)
  turn.leave()
})
