/** Which responses OPD reads: a 200 with JSON that may be transformed. All others are forwarded unchanged (CONTRACT 4.6, 4.7). */
import t from 'tap'
import type { HeadReason, ResponseReason } from '../../../opd/shared/reasons.ts'
import { responseReasons } from '../../../opd/shared/reasons.ts'
import { testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'
import { idleEngine, startProxy } from '../../support/proxy.ts'
import { post, raw } from '../../support/raw.ts'
import { rawSupplier } from '../../support/supplier.ts'

const came = '{"seatbid":[]}'
const changed = '{"seatbid":[1]}'
const digests = ['ETag', 'Content-MD5', 'Digest', 'Content-Digest', 'Repr-Digest']
const digestLines = digests.map((name) => `${name}: x\r\n`).join('')

const type = (value: string) => `Content-Type: ${value}\r\n`
/** What is counted against a look; null: it is looked at. */
const rows: [string, string, HeadReason | null][] = [
  ['no type', '', null],
  ['JSON', type('application/json'), null],
  ['JSON in capitals', type('Application/JSON'), null],
  ['JSON as text', type('text/json'), null],
  ['JSON of a kind', type('application/ld+json'), null],
  ['OpenRTB as JSON of its own', type('application/vnd.iab.openrtb.v2+json; charset=utf-8'), null],
  ['JSON of a kind that is no application', type('Model/X+JSON'), null],
  ['UTF-8', type('application/json; charset=utf-8'), null],
  ['UTF-8 in capitals', type('application/json;charset=UTF-8'), null],
  ['UTF-8 in quotes', type('application/json; charset="utf-8"'), null],
  ['UTF-8 in single quotes', type("application/json; charset='utf-8'"), null],
  ['UTF-8 as old clients spell it', type('application/json; charset=utf8'), null],
  ['UTF-8 with a low line', type('text/json; charset=UTF_8'), null],
  ['a charset without a name', type('application/json; charset='), null],
  ['a name in capitals', type('application/json; Charset=UTF-8'), null],
  ['another charset', type('application/json; charset=iso-8859-1'), 'charset'],
  ['another charset of another JSON', type('text/x+json; charset=latin1'), 'charset'],
  ['UTF-16', type('application/json; charset="utf-16"'), 'charset'],
  ['text', type('text/plain'), 'content_type'],
  ['text in another charset', type('text/plain; charset=latin1'), 'content_type'],
  ['XML', type('application/xml'), 'content_type'],
  ['a type that begins like it', type('application/jsonp'), 'content_type'],
  ['a suffix that begins like it', type('application/x+jsonp'), 'content_type'],
  ['a kind without a suffix', type('application/x-json'), 'content_type'],
  ['a type without a subtype', type('json'), 'content_type'],
  ['no-transform', 'Cache-Control: no-transform\r\n', 'no_transform'],
  [
    'no-transform among others',
    'Cache-Control: max-age=1,NO-TRANSFORM , private\r\n',
    'no_transform',
  ],
  [
    'no-transform in a second line',
    'Cache-Control: private\r\ncache-control: no-transform\r\n',
    'no_transform',
  ],
  ['a directive that ends like it', 'Cache-Control: x-no-transform\r\n', null],
]

let answer = ''
const supplier = await rawSupplier((socket) => socket.write(answer, 'latin1'))
let reads = true
const untouched: string[] = []
const engine = idleEngine({
  readsResponses: () => reads,
  countUnmodified: (_ssp, reason) => void untouched.push(reason),
  rewrite: () => ({
    body: Buffer.from(changed),
    reason: null,
    removed: 0,
    left: 1,
    unreadable: false,
  }),
})
const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '20s' } }, { engine })
t.teardown(() => Promise.all([proxy.close(), supplier.close()]))

const ask = (status: string, headers: string) => {
  answer = `HTTP/1.1 ${status}\r\n${headers}${digestLines}Content-Length: ${came.length}\r\n\r\n${came}`
  return raw(proxy.port, post('/bid/acme', '{}'))
}

for (const [name, headers, against] of rows)
  t.test(`${name}: ${against ?? 'looked at'}`, async (t) => {
    untouched.length = 0
    const seen = await ask('200 OK', headers)
    t.equal(seen.body, against === null ? changed : came)
    t.equal(seen.headers['content-length'], String(seen.body.length))
    for (const digest of digests)
      t.equal(seen.headers[digest.toLowerCase()], against === null ? undefined : 'x', digest)
    t.same(untouched, against === null ? [] : [against])
  })

for (const status of ['201 Created', '203 Other', '206 Partial', '400 No', '500 No'])
  t.test(`${status}: untouched`, async (t) => {
    untouched.length = 0
    for (const headers of [type('application/json'), type('text/plain')]) {
      const seen = await ask(status, headers)
      t.match(seen, { status: Number(status.slice(0, 3)), body: came, headers: { etag: 'x' } })
    }
    t.same(untouched, [], 'and not counted')
  })

t.test('without OPD nothing is counted against a look', async (t) => {
  t.teardown(() => {
    reads = true
  })
  reads = false
  untouched.length = 0
  for (const [, headers] of rows) t.equal((await ask('200 OK', headers)).body, came)
  t.same(untouched, [])
})

t.test('what is not looked at is counted by its head, however long it streams', async (t) => {
  untouched.length = 0
  const long = 'x'.repeat(5 * 1024 * 1024)
  answer = `HTTP/1.1 200 OK\r\n${type('video/mp4')}Content-Length: ${long.length}\r\n\r\n${long}`
  t.equal((await raw(proxy.port, post('/bid/acme', '{}'))).body.length, long.length)
  t.same(untouched, ['content_type'])
})

t.test(
  'bids of an inactive seat are cut whatever the type, or the answer is unreadable',
  async (t) => {
    const { engine } = testEngine({ integrations: [integration('acme')] })
    const proxyAlone = await startProxy(
      { acme: { endpoints: [supplier.url], timeout: '20s' } },
      { engine },
    )
    t.teardown(() => proxyAlone.close())
    proxyAlone.proxy.setDirectory(
      () => ({ inactiveSeats: new Set(['off']), allotment: undefined }),
      1,
    )
    const seat = (name: string) => `{"seat":"${name}","bid":[{"id":"${name}","price":1}]}`
    const bids = `{"seatbid":[${seat('off')},${seat('on')}]}`
    const counted: Partial<Record<ResponseReason, number>> = {}
    for (const [name, headers, against] of rows)
      for (const [body, status] of [
        [bids, 200],
        ['<html>off</html>', 204],
        [`{"openrtb":{"response":${bids}}}`, 204],
      ] as const) {
        answer = `HTTP/1.1 200 OK\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`
        const seen = await raw(proxyAlone.port, post('/bid/acme', '{}'))
        t.equal(seen.status, status, name)
        if (status === 200) t.equal(seen.body, `{"seatbid":[${seat('on')}]}`)
        else t.equal(seen.headers['x-bidweir-reason'], 'unreadable')
        // What was changed is not untouched.
        const reason = against ?? (status === 200 ? null : 'no_macro')
        if (reason !== null) counted[reason] = (counted[reason] ?? 0) + 1
      }
    const { responses } = engine.stats.supplierStats('acme')
    for (const [index, reason] of responseReasons.entries())
      t.equal(responses[index], counted[reason] ?? 0, reason)
  },
)
