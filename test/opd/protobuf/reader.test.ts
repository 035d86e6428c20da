/** OpenRTB in Protocol Buffers: what an independent encoder writes is read as the JSON readers read the same request. */
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { readAgentCall } from '../../../opd/agent/call.ts'
import type { RequestFacts } from '../../../opd/openrtb/facts.ts'
import { readRequest } from '../../../opd/openrtb/request.ts'
import { callOf, encodeCall } from '../../support/agent.ts'

/** The call; null: it cannot be read. */
function read(bytes: Buffer) {
  const call = readAgentCall(bytes)
  return typeof call === 'string' ? null : call
}

const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 })
const amount = fc.double({ min: 0, max: 1e6, noNaN: true })
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 3 })
const record = <T extends object>(shape: { [K in keyof T]: fc.Arbitrary<T[K]> }) =>
  fc.record(shape).map((value) => JSON.parse(JSON.stringify(value)) as object)

const currency = fc.constantFrom('USD', 'eur', 'JPY')
const range = record({
  mindur: fc.integer({ min: 0, max: 60 }),
  maxdur: fc.integer({ min: 0, max: 120 }),
  bidfloor: amount,
})
const timed = record({
  mincpmpersec: optional(amount),
  durfloors: optional(fc.array(range, { maxLength: 4 })),
})
const deal = record({
  id: text,
  bidfloor: optional(amount),
  bidfloorcur: optional(currency),
  at: optional(fc.integer({ min: 1, max: 3 })),
  guar: optional(fc.constantFrom(0, 1)),
  mincpmpersec: optional(amount),
})
const size = {
  w: optional(fc.integer({ min: 1, max: 4000 })),
  h: optional(fc.integer({ min: 1, max: 4000 })),
}
const player = fc.tuple(timed, record(size)).map(([floors, area]) => ({ ...floors, ...area }))
const imp = record({
  id: text,
  bidfloor: optional(amount),
  bidfloorcur: optional(currency),
  tagid: optional(text),
  banner: optional(record({ ...size, format: optional(fc.array(record(size), { maxLength: 3 })) })),
  video: optional(player),
  audio: optional(timed),
  native: optional(record({ request: text })),
  pmp: optional(record({ deals: fc.array(deal, { maxLength: 3 }) })),
})
const publisher = optional(record({ id: text }))
const request = record({
  id: text,
  at: optional(fc.integer({ min: 1, max: 3 })),
  imp: fc.array(imp, { minLength: 1, maxLength: 4 }),
  site: optional(record({ domain: optional(text), page: optional(fc.webUrl()), publisher })),
  device: optional(
    record({
      devicetype: fc.integer({ min: 1, max: 7 }),
      geo: optional(record({ country: text })),
    }),
  ),
  user: optional(record({ geo: optional(record({ country: text })) })),
})

/** The facts alone, in one order, without the references between them. */
function plainFacts(facts: RequestFacts | null): unknown {
  if (facts === null) return null
  const seen = new Set(['request', 'imp', 'floors'])
  return JSON.parse(
    JSON.stringify({ ...facts, imps: [...facts.imps] }, (key, value) => {
      if (seen.has(key)) return undefined
      return value instanceof Map ? [...value] : value
    }),
  )
}

t.test('a request in Protocol Buffers has the facts of the same request in JSON', async (t) => {
  fc.assert(
    fc.property(request, (bid_request) => {
      const call = read(encodeCall({ bid_request }))
      const json = readRequest(Buffer.from(JSON.stringify(bid_request)))
      deepStrictEqual(plainFacts(call?.request ?? null), plainFacts(json))
    }),
    { seed: 7, numRuns: 300 },
  )
  t.pass('300 requests')
})

/** Adds unknown fields of every wire type in front of the fields of a message. */
const unknown = Buffer.from([
  ...[0xa0, 0x3f, 0xff, 0x01], // field 1012, varint
  ...[0xa9, 0x3f, 1, 2, 3, 4, 5, 6, 7, 8], // field 1013, fixed 64
  ...[0xb2, 0x3f, 3, 9, 9, 9], // field 1014, bytes
  ...[0xbd, 0x3f, 1, 2, 3, 4], // field 1015, fixed 32
])

t.test('unknown fields of every wire type are skipped', async (t) => {
  const bytes = encodeCall(callOf())
  const call = read(Buffer.concat([unknown, bytes, unknown]))
  t.equal(call?.response?.bids[0]?.bidId, 'bid-1')
  t.equal(call?.id, 'call-1')
})

t.test('a list of numbers is read packed and unpacked', async (t) => {
  t.same(read(Buffer.from([0x3a, 2, 6, 2]))?.intents, [6, 2])
  t.same(read(Buffer.from([0x38, 6, 0x38, 2]))?.intents, [6, 2])
})

t.test(
  'a message that is sent twice is merged, and the last value of a field counts',
  async (t) => {
    const half = (over: object) => encodeCall({ bid_request: over })
    const call = read(Buffer.concat([half({ id: 'a', at: 1 }), half({ id: 'b' })]))
    t.equal(call?.request?.id, 'b')
    t.equal(call?.request?.auctionType, 1)
  },
)

t.test('a negative number of ten bytes is read', async (t) => {
  const call = read(encodeCall({ tmax: -5 }))
  t.equal(call?.tmax, -5)
})

t.test('every prefix of a call is read or refused, and never throws', async (t) => {
  const bytes = encodeCall(callOf())
  let refused = 0
  for (let length = 0; length < bytes.length; length++)
    if (readAgentCall(bytes.subarray(0, length)) === 'malformed') refused++
  t.ok(refused > bytes.length / 2, `${refused} of ${bytes.length}`)
})

t.test('random bytes are read or refused, and never throw', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      readAgentCall(Buffer.from(bytes))
      return true
    }),
    { seed: 7, numRuns: 2000 },
  )
  t.pass('2,000 messages')
})

const malformed: [title: string, bytes: number[]][] = [
  ['a group', [0x0b, 0x0c]],
  ['field number 0', [0x00, 0x00]],
  ['a varint of more than ten bytes', [0x18, ...Array(11).fill(0xff), 0x01]],
  ['a length beyond the end', [0x12, 0x05, 0x61]],
  ['a length of 2^60', [0x12, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x10]],
  ['an unknown wire type', [0x0e]],
]
for (const [title, bytes] of malformed)
  t.test(`${title} is malformed`, async (t) => {
    t.equal(readAgentCall(Buffer.from(bytes)), 'malformed')
  })

const hostile: [title: string, bytes: Buffer][] = [
  ['seats', Buffer.alloc(4_000_000, Buffer.from([0x12, 0x00]))],
  ['imps', Buffer.alloc(4_000_000, Buffer.from([0x12, 0x00]))],
  ['unknown numbers', Buffer.alloc(4_000_000, Buffer.from([0x78, 0x00]))],
]
for (const [title, inner] of hostile)
  t.test(
    `a call with two million ${title} is too large, before objects are made of them`,
    async (t) => {
      const tag = title === 'imps' ? 0x22 : 0x2a
      const length = inner.length
      const head = [tag, (length & 0x7f) | 0x80, ((length >> 7) & 0x7f) | 0x80]
      const bytes = Buffer.concat([
        Buffer.from([...head, ((length >> 14) & 0x7f) | 0x80, length >> 21]),
        inner,
      ])
      t.equal(readAgentCall(bytes), 'too_large')
    },
  )
