/** Which answers are looked at: a 200 of JSON that may be transformed; all others pass untouched (CONTRACT 4.6, 4.7). */
import t from 'tap'
import { idleEngine, startProxy } from '../support/proxy.ts'
import { post, raw } from '../support/raw.ts'
import { rawSupplier } from '../support/supplier.ts'

const came = '{"seatbid":[]}'
const changed = '{"seatbid":[1]}'
const digests = ['ETag', 'Content-MD5', 'Digest', 'Content-Digest', 'Repr-Digest']
const digestLines = digests.map((name) => `${name}: x\r\n`).join('')

const type = (value: string) => `Content-Type: ${value}\r\n`
const rows: [string, string, boolean][] = [
  ['no type', '', true],
  ['JSON', type('application/json'), true],
  ['JSON in capitals', type('Application/JSON'), true],
  ['UTF-8', type('application/json; charset=utf-8'), true],
  ['UTF-8 in capitals', type('application/json;charset=UTF-8'), true],
  ['UTF-8 in quotes', type('application/json; charset="utf-8"'), true],
  ['UTF-8 as old clients spell it', type('application/json; charset=utf8'), true],
  ['a name in capitals', type('application/json; Charset=UTF-8'), true],
  ['another charset', type('application/json; charset=iso-8859-1'), false],
  ['UTF-16', type('application/json; charset="utf-16"'), false],
  ['text', type('text/plain'), false],
  ['XML', type('application/xml'), false],
  ['JSON of another kind', type('application/ld+json'), false],
  ['a type that begins like it', type('application/jsonp'), false],
  ['no-transform', 'Cache-Control: no-transform\r\n', false],
  ['no-transform among others', 'Cache-Control: max-age=1,NO-TRANSFORM , private\r\n', false],
  [
    'no-transform in a second line',
    'Cache-Control: private\r\ncache-control: no-transform\r\n',
    false,
  ],
  ['a directive that ends like it', 'Cache-Control: x-no-transform\r\n', true],
]

let answer = ''
const supplier = await rawSupplier((socket) => socket.write(answer, 'latin1'))
const engine = idleEngine({
  reads: () => true,
  rewrite: () => ({
    body: Buffer.from(changed),
    reason: null,
    removed: 0,
    left: 1,
    unreadable: false,
  }),
})
const proxy = await startProxy({ acme: { endpoints: [supplier.url], timeout: '5s' } }, { engine })
t.teardown(() => Promise.all([proxy.close(), supplier.close()]))

const ask = (status: string, headers: string) => {
  answer = `HTTP/1.1 ${status}\r\n${headers}${digestLines}Content-Length: ${came.length}\r\n\r\n${came}`
  return raw(proxy.port, post('/bid/acme', '{}'))
}

for (const [name, headers, looked] of rows)
  t.test(`${name}: ${looked ? 'looked at' : 'untouched'}`, async (t) => {
    const seen = await ask('200 OK', headers)
    t.equal(seen.body, looked ? changed : came)
    t.equal(seen.headers['content-length'], String(seen.body.length))
    for (const digest of digests)
      t.equal(seen.headers[digest.toLowerCase()], looked ? undefined : 'x', digest)
  })

for (const status of ['201 Created', '203 Other', '206 Partial', '400 No', '500 No'])
  t.test(`${status}: untouched`, async (t) => {
    const seen = await ask(status, type('application/json'))
    t.match(seen, { status: Number(status.slice(0, 3)), body: came, headers: { etag: 'x' } })
  })
