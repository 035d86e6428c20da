/** Bodies that are expensive on purpose: each would take minutes or gigabytes if the rewriter read anything more than twice. */
import t from 'tap'
import { opdSchema } from '../../../opd/config.ts'
import { rewriteInSlices } from '../../../opd/rewrite/rewrite.ts'
import { run } from '../../support/rewrite.ts'

const size = 4 * 1024 * 1024
const nurl = '"nurl":"svc_opd=${SVC_OPD_CONTEXT}"'
const times = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_each, index) => make(index)).join(',')
const around = (more: string) =>
  `{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,${nurl}}]}],"x":[${more}]}`

const dear: [string, string, number][] = [
  ['short strings without an escape', around(times(size / 6, () => '"abc"')), 1],
  [
    'longer strings, one escape at the end',
    around(`${times(size / 34, () => `"${'a'.repeat(30)}"`)},"\\n"`),
    1,
  ],
  ['nothing but escapes', around(`"${'\\n'.repeat(size / 2)}"`), 1],
  ['escaped quotes', around(`"${'\\"'.repeat(size / 2)}"`), 1],
  ['numbers of a million digits', around('1'.repeat(size)), 1],
  ['white space', around(`${' '.repeat(size)}1`), 1],
  ['open brackets', around('['.repeat(size)), 0],
  ['keys that stand twice', around(`{${times(size / 8, () => '"id":1')}}`), 1],
]
for (const [name, raw, priced] of dear)
  t.test(name, async (t) => {
    t.equal(run({ title: '', raw }).priced.length, priced)
  })

t.test('thousands of imps, deals and bids', async (t) => {
  const deals = times(8000, (index) => `{"id":"d${index}"}`)
  const imps = `{"id":"1","pmp":{"deals":[${deals}]}},${times(20_000, (index) => `{"id":"i${index}"}`)}`
  const bids = times(
    30_000,
    (index) => `{"id":"b","impid":"1","price":2,"dealid":"d${index % 8000}",${nurl}}`,
  )
  t.equal(run({ title: '', imps, raw: `{"seatbid":[{"bid":[${bids}]}]}` }).priced.length, 30_000)
})

t.test('bids without end are too large, and no megabytes of objects', async (t) => {
  const bids = times(50_001, () => '{}')
  const { out, came, priced } = run({ title: '', raw: `{"seatbid":[{"bid":[{${nurl}},${bids}]}]}` })
  t.equal(out.body, came)
  t.equal(out.reason, 'too_large')
  t.equal(priced.length, 0)
})

t.test('many bids are priced in turns that leave the event loop free', async (t) => {
  const bid = { id: 'b', impid: '1', price: 2, nurl: 'http://x/?svc_opd=${SVC_OPD_CONTEXT}' }
  const turnsOf = (count: number) => {
    const body = Buffer.from(JSON.stringify({ seatbid: [{ bid: Array(count).fill(bid) }] }))
    let yields = 0
    const turns = rewriteInSlices({
      body,
      request: () => Buffer.from('{"id":"a","imp":[{"id":"1"}]}'),
      opd: opdSchema.parse({ enabled: true }),
      inactiveSeats: new Set(),
      rates: null,
      base: 'USD',
      price: () => ({ priceText: '1', inText: '2', outText: '1', context: 'c', mode: 'revenue' }),
    })
    while (!turns.next().done) yields++
    return yields
  }
  t.equal(turnsOf(1), 0)
  t.equal(turnsOf(49), 0)
  t.ok(turnsOf(1000) >= 20)
})

t.test('floors by duration without end are doubted', async (t) => {
  const floors = times(201, () => '{"bidfloor":1}')
  const { reasons } = run({ title: '', imp: `"video":{"durfloors":[${floors}]}`, bid: '"dur":1' })
  t.strictSame(reasons, ['ambiguous'])
})

t.test('a macro a byte: the answer does not grow without end', async (t) => {
  const adm = `svc_opd=${'${SVC_OPD_CONTEXT}'.repeat(size / 18)}`
  const raw = `{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"adm":"${adm}"}]}]}`
  const context = 'c'.repeat(512)
  const { out, came } = run({ title: '', raw, context })
  t.equal(out.body, came)
  t.equal(out.reason, 'too_large')
})

t.test('every letter of megabytes spelled by an escape', async (t) => {
  const adm = `${'\\u0041'.repeat(size / 6)}svc_opd=\\u0024{SVC_OPD_CONTEXT}`
  const raw = `{"seatbid":[{"bid":[{"id":"b","impid":"1","price":2,"adm":"${adm}"}]}]}`
  const { out } = run({ title: '', raw })
  t.ok(out.body.includes('svc_opd=CTX"'))
})
