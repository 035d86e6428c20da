/** The index and the reference give the readers the same, whatever the bytes. FUZZ_RUNS=10000000 is the soak. */
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { indexDocument } from '../../../opd/json/index-memory.ts'
import {
  createScanner,
  createTextScanner,
  KeyTable,
  type Read,
  type Scanner,
} from '../../../opd/json/scanner.ts'
import { readStandaloneRequest } from '../../../opd/openrtb/request.ts'
import { readBidResponse } from '../../../opd/openrtb/response.ts'
import { Macros } from '../../../opd/rewrite/macros.ts'
import { readCall } from '../../../opd/standalone/offer.ts'
import { mutatedJson, seeded } from '../../support/fuzz/json.ts'
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

const accepts = (scan: Scanner | null) => scan?.document((each, at) => each.skip(at), null) ?? false

/** Without the macros, which have a position of their own. */
function responseOf(scan: Scanner): unknown {
  const response = readBidResponse(scan, new Macros(scan))
  if (typeof response === 'string') return response
  const seats = response.seats.map(({ bids, ...seat }) => ({
    ...seat,
    response: null,
    bids: bids.map((bid) => ({ ...bid, seat: null })),
  }))
  return { ...response, macros: null, seats }
}

const readers = [responseOf, readStandaloneRequest, readCall]

/** null: both say the same. */
function difference(body: Buffer, asText: boolean): string | null {
  const given = asText ? body.toString('latin1') : body
  const reference = createTextScanner(given)
  const valid = accepts(reference)
  if (indexDocument(given) !== valid)
    return valid ? 'only the reference accepts' : 'only the index accepts'
  if (reference === null) return createScanner(given) === null ? null : 'not UTF-8'
  if (!valid) return null
  const scan = createScanner(given)!
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
    if (indexDocument(body)) accepted++
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
    t.throws(() => new KeyTable({ [key]: (scan, at) => scan.skip(at) }), RangeError, key)
})

const most = 1024 * 1024

t.test('documents of any length, up to the longest that is indexed', async (t) => {
  for (const length of [
    1,
    63,
    64,
    65,
    126,
    127,
    128,
    65_535,
    65_536,
    65_537,
    131_073,
    most - 1,
    most,
  ])
    for (const [start, end] of [
      ['"', '"'],
      ['[', ']'],
      ['["é', '"]'],
    ] as const) {
      const body = Buffer.alloc(length + 8, start === '[' ? ' ' : 'x')
      body.write(start)
      const whole = body.subarray(0, Math.max(length - end.length, Buffer.byteLength(start)))
      const document = Buffer.concat([whole, Buffer.from(end)])
      if (document.length <= most) t.equal(indexDocument(document), true, `${start} ${length}`)
      t.equal(indexDocument(whole), false, `${start} ${length} without its end`)
      t.equal(difference(document, false), null)
    }
  const long = Buffer.from(`"${'x'.repeat(most)}"`)
  t.equal(indexDocument(long), false, 'longer ones are left to the reference')
  t.equal(accepts(createScanner(long)), true)
})

/** The number of elements, by both scanners. */
function elements(body: Buffer): number[] {
  return [createScanner(body), createTextScanner(body)].map((scan) => {
    let count = 0
    const element: Read<null> = (each, at) => {
      count++
      return each.skip(at)
    }
    return scan!.document((each, at) => each.array(at, element, null), null) ? count : -1
  })
}

t.test('the densest documents, and the deepest', async (t) => {
  const dense = (value: string, depth: number) => {
    const room = Math.floor((most - 2 * depth - value.length) / (value.length + 1))
    const inner = `${`${value},`.repeat(room)}${value}`
    return Buffer.from(`${'['.repeat(depth)}${inner}${']'.repeat(depth)}`)
  }
  for (const value of ['0', '""', '[]', '{}', '[0]', '[[[0]]]', '{"":0}'])
    for (const depth of [1, 900]) {
      const body = dense(value, depth)
      t.equal(indexDocument(body), true, `${value} at depth ${depth}`)
      const [indexed, reference] = elements(body)
      t.equal(indexed, reference)
    }
  for (const code of [',', '[', '{', '"', ':', '\\', '{"":', '[0,', '\x80', '\xe0'])
    t.equal(indexDocument(Buffer.alloc(most, code, 'latin1')), false, `nothing but ${code}`)
  const nested = (depth: number) => Buffer.from('['.repeat(depth) + ']'.repeat(depth))
  t.equal(indexDocument(nested(1000)), true)
  t.equal(indexDocument(nested(1001)), false)
})

t.test('a scanner reads its own document after another one was indexed', async (t) => {
  const [scan, other] = ['[1,2,3]', '["a"]'].map((text) => createScanner(Buffer.from(text))!)
  const read = (each: Scanner) => {
    const found: unknown[] = []
    const element: Read<null> = (inner, at) => {
      const end = inner.read(at)
      found.push(inner.value)
      return end
    }
    each.document((inner, at) => inner.array(at, element, null), null)
    return found
  }
  t.same([read(scan!), read(other!), read(scan!)], [[1, 2, 3], ['a'], [1, 2, 3]])
})
