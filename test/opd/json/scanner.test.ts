/** The scanner gives the readers what JSON.parse does, whatever the bytes. FUZZ_RUNS=10000000 is the soak. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { createScanner, KeyTable, type Scanner } from '../../../opd/json/scanner.ts'
import { RequestFacts } from '../../../opd/openrtb/facts.ts'
import { requestKeys } from '../../../opd/openrtb/request.ts'
import { readBidResponse } from '../../../opd/openrtb/response.ts'
import { Macros } from '../../../opd/rewrite/macros.ts'
import { readCall } from '../../../opd/standalone/call.ts'
import { mutatedJson, seeded } from '../../support/fuzz/json.ts'
import { referenceScanner } from '../../support/fuzz/reference-scanner.ts'
import { vectors } from '../../support/vectors.ts'

const runs = Number(process.env['FUZZ_RUNS'] ?? 20_000)

const corpus = vectors.flatMap(({ request, response, responseBase64 }) => [
  Buffer.from(request),
  response === undefined ? Buffer.from(responseBase64!, 'base64') : Buffer.from(response),
])
corpus.push(
  Buffer.from(
    '{"imp":[{"id":"1","video":{"durfloors":[{"mindur":5,"maxdur":15,"bidfloor":2}],"mincpmpersec":0.1},"pmp":{"deals":[{"id":"d","bidfloor":1.50,"at":3,"guar":1}]},"banner":{"format":[{"w":300,"h":250}]}}],"app":{"bundle":"b","domain":"É.example","publisher":{"id":"p"}},"device":{"geo":{"country":"NLD"},"devicetype":4}}',
  ),
)

// Not ASCII in blocks that are far apart.
const tag = `é${'x'.repeat(100)}`
corpus.push(
  Buffer.from(
    JSON.stringify({
      id: tag,
      imp: [{ id: tag, tagid: tag }],
      app: { bundle: tag, publisher: { id: '中' } },
    }),
  ),
)

function requestOf(scan: Scanner): RequestFacts {
  const facts = new RequestFacts()
  scan.object(requestKeys, facts)
  return facts
}

/** Without the macros, which have a position of their own. */
function responseOf(scan: Scanner): unknown {
  const response = readBidResponse(scan, new Macros(scan))
  if (response.tooLarge) return 'too_large'
  const seats = response.seats.map(({ bids, ...seat }) => ({
    ...seat,
    response: null,
    bids: bids.map((bid) => ({ ...bid, seat: null })),
  }))
  return { ...response, macros: null, seats }
}

const readers = [responseOf, requestOf, readCall]

/** null: both say the same. */
function difference(body: Buffer, asText: boolean): string | null {
  const given = asText ? body.toString('latin1') : body
  const reference = referenceScanner(body)
  const scan = createScanner(given)
  if (scan === null) return reference === null ? null : 'a valid document is refused'
  if (reference === null) return 'a malformed document is read'
  for (const read of readers)
    if (!isDeepStrictEqual(read(scan), read(reference))) return `other values by ${read.name}`
  return null
}

t.test(`${runs} mutations of the vectors`, async (t) => {
  const first = Number(process.env['FUZZ_SEED'] ?? 1)
  let accepted = 0
  for (let run = 0; run < runs; run++) {
    const random = seeded(first + run)
    const body = mutatedJson(corpus, random)
    const found = difference(body, random(2) === 0)
    if (found !== null) {
      t.fail(found, { run, body: body.toString('latin1') })
      return
    }
    if (createScanner(body) !== null) accepted++
  }
  t.ok(
    accepted > runs / 10 && accepted < runs * 0.9,
    'valid and malformed documents are among them',
  )
})

t.test('keys that are escaped, unknown, long, or below unknown ones', async (t) => {
  for (const body of [
    '{"\\u0069d":"a","i\\u006dp":[{"\\u0069\\u0064":"1","bidfl\\u006for":2}]}',
    '{"id":"a","\\u0069d":"b"}',
    '{"imp":[{"id":"1","bidfloorcur":"EUR","bidfloorcu":1,"bidfloorcurr":2,"bidfloor ":3}]}',
    '{"":1,"i":2,"idd":3,"id":"a","a key of more than 16 bytes":4,"imp\\u0000":5}',
    '{"user":{"imp":[{"id":"x"}],"id":"y"},"imp":[{"id":"1","ext":{"id":"2","bidfloor":9}}]}',
    '{"seatbid":[{"bid":[{"id":"1","ext":{"id":"2","adm":"svc_opd=${SVC_OPD_CONTEXT}"}}]}]}',
    '{"seatbid":[{"b\\u0069d":[{"adm":"svc_opd=${SVC_OPD_CONTEXT}","pr\\u0069ce":1,"price":2}]}]}',
    '{"seatbid":[{"bid":[{"adm":"$${SVC_OPD_CONTEXT${SVC_OPD_MODE}","nurl":"svc_opd=${SVC_OPD_CONTEXT}"}]}]}',
  ])
    for (const asText of [false, true]) t.equal(difference(Buffer.from(body), asText), null, body)
})

t.test('a table whose keys cannot be indexed is refused', async (t) => {
  for (const key of ['a key of 17 bytes', '', 'é', 'a"', 'a\\'])
    t.throws(() => new KeyTable({ [key]: () => {} }), RangeError, key)
})

t.test('documents of any length are read', async (t) => {
  for (const length of [1, 63, 64, 65, 126, 127, 128, 65_535, 65_536, 65_537, 131_073, 5_000_000])
    for (const [start, end] of [
      ['"', '"'],
      ['[', ']'],
      ['["é', '"]'],
    ] as const) {
      const body = Buffer.alloc(length + 8, start === '[' ? ' ' : 'x')
      body.write(start)
      const cutBody = body.subarray(0, Math.max(length - end.length, Buffer.byteLength(start)))
      const document = Buffer.concat([cutBody, Buffer.from(end)])
      t.not(createScanner(document), null, `${start} ${length}`)
      t.equal(createScanner(cutBody), null, `${start} ${length} without its end`)
      t.equal(difference(document, false), null)
    }
})

t.test('the densest and the deepest documents are read', async (t) => {
  const most = 4 * 1024 * 1024
  const dense = (value: string, count: number, depth: number) => {
    const inner = `${`${value},`.repeat(count - 1)}${value}`
    return Buffer.from(`${'['.repeat(depth)}${inner}${']'.repeat(depth)}`)
  }
  const elements = (scan: Scanner, depth: number): number => {
    let count = 0
    const element = (inner: Scanner, left: number) => {
      if (left === 0) count++
      else inner.array((inner) => element(inner, left - 1), null)
    }
    element(scan, depth)
    return count
  }
  for (const value of ['0', '""', '[]', '{}', '[0]', '[[[0]]]', '{"":0}'])
    for (const depth of [1, 900]) {
      const count = Math.floor((most - 2 * depth) / (value.length + 1))
      const scan = createScanner(dense(value, count, depth))
      t.equal(scan && elements(scan, depth), count, `${value} at depth ${depth}`)
    }
  for (const code of [',', '[', '{', '"', ':', '\\', '{"":', '[0,', '\x80', '\xe0'])
    t.equal(createScanner(Buffer.alloc(most, code, 'latin1')), null, `nothing but ${code}`)
  const nested = (depth: number) => Buffer.from('['.repeat(depth) + ']'.repeat(depth))
  t.not(createScanner(nested(1000)), null)
  t.equal(createScanner(nested(1001)), null)
})
