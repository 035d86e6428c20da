/** Bid responses in Protocol Buffers: what is priced, which bytes change, and that all others stay. */
import { deepStrictEqual } from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import { opdSchema } from '../../../opd/config.ts'
import { rewriteInSlices } from '../../../opd/rewrite/rewrite.ts'
import type { BidReason, EligibleBid } from '../../../opd/shared/reasons.ts'
import {
  bytes,
  double,
  fieldsOf,
  int,
  lastOf,
  type SentField,
} from '../../support/protobuf-bytes.ts'

const macro = 'svc_opd=${SVC_OPD_CONTEXT}'
const context = 'C'.repeat(300)

interface Options {
  request?: Buffer | null
  inactive?: string[]
  memory?: { reserve(bytes: number): boolean; keep(bytes: number): boolean }
  /** The new price by the old one; null: it stays. */
  priceOf?: (price: number) => string | null
}

const tenthOff = (price: number) => String(Math.round(price * 900_000) / 1e6)
const anyRequest = bytes(2, [bytes(1, '1')])

function started(body: Buffer, options: Options, reasons: BidReason[], priced: EligibleBid[]) {
  const { request = anyRequest, inactive, memory, priceOf = tenthOff } = options
  return rewriteInSlices({
    body,
    format: 'protobuf',
    request: () => request,
    requestFormat: 'protobuf',
    opd: opdSchema.parse({ enabled: true }),
    inactiveSeats: new Set(inactive),
    rates: null,
    base: 'USD',
    memory,
    price: (bid) => {
      priced.push(bid)
      const priceText = priceOf(bid.price)
      return {
        priceText,
        inText: bid.priceText,
        outText: priceText ?? bid.priceText,
        context,
        mode: 'revenue',
      }
    },
    onBid: (reason) => reasons.push(reason),
  })
}

function run(body: Buffer, options: Options = {}) {
  const reasons: BidReason[] = []
  const priced: EligibleBid[] = []
  const out = drained(started(body, options, reasons, priced))
  return { out, reasons, priced }
}

const bidOf = (...over: Buffer[]) =>
  bytes(1, [
    bytes(1, 'b1'),
    bytes(2, '1'),
    double(3, 2),
    bytes(5, `https://t.example/?${macro}`),
    ...over,
  ])
const seatOf = (name: string, ...bids: Buffer[]) => bytes(2, [...bids, bytes(2, name)])

/** What a response is after the rewriter, by an implementation of its own: fields, their spelling, and the expected changes. */
function expected(
  body: Buffer,
  priced: readonly EligibleBid[],
  priceOf: (price: number) => string | null = tenthOff,
): Buffer {
  let next = 0
  const respelled = (field: SentField, value: Buffer, number: number) => {
    if (value.length === field.value.length) return Buffer.concat([field.tag, field.length, value])
    const made = bytes(number, value)
    // The tag keeps its spelling.
    return Buffer.concat([
      field.tag,
      made.subarray(made.length - value.length - lengthWidth(value)),
    ])
  }
  const lengthWidth = (value: Buffer) => Math.max(1, Math.ceil(value.length.toString(2).length / 7))
  const same = ({ tag, length, value }: SentField) => Buffer.concat([tag, length, value])
  const expand = (text: Buffer, bid: EligibleBid) => {
    const out = priceOf(bid.price) ?? bid.priceText
    return Buffer.from(
      text.toString('latin1').replaceAll(
        /\$\{SVC_OPD_(CONTEXT|IN_BID_PRICE|OUT_BID_PRICE|MODE)\}/g,
        (_, name: string) =>
          ({
            CONTEXT: context,
            IN_BID_PRICE: bid.priceText,
            OUT_BID_PRICE: out,
            MODE: 'revenue',
          })[name]!,
      ),
      'latin1',
    )
  }
  const bidBytes = (content: Buffer): Buffer => {
    const fields = fieldsOf(content)
    const marked = [5, 6, 22].some((number) => lastOf(fields, number, 2)?.value.includes(macro))
    const price = lastOf(fields, 3, 1)
    const bid = priced[next]
    // The rewriter says which bids are eligible; the others keep their bytes.
    if (!marked || bid === undefined || price?.value.readDoubleLE() !== bid.price) return content
    if (bid.bidId !== (lastOf(fields, 1, 2)?.value.toString() ?? '')) return content
    next++
    const strings = [5, 6, 22, 23].map((number) => lastOf(fields, number, 2))
    return Buffer.concat(
      fields.map((field) => {
        const newPrice = priceOf(bid.price)
        if (field === price && newPrice !== null)
          return Buffer.concat([field.tag, double(3, Number(newPrice)).subarray(1)])
        return strings.includes(field)
          ? respelled(field, expand(field.value, bid), field.number)
          : same(field)
      }),
    )
  }
  const within = (content: Buffer, number: number, change: (inner: Buffer) => Buffer) =>
    Buffer.concat(
      fieldsOf(content).map((field) =>
        field.number === number && field.wireType === 2
          ? respelled(field, change(field.value), number)
          : same(field),
      ),
    )
  const made = within(body, 2, (seat) => within(seat, 1, bidBytes))
  if (next !== priced.length) throw new Error(`${next} of ${priced.length} bids were found`)
  return made
}

t.test('a marked bid is priced, its macros are expanded, and lengths fit', async (t) => {
  const adm = `<img src="https://a.example/?${macro}&p=\${AUCTION_PRICE}&in=\${SVC_OPD_IN_BID_PRICE}&out=\${SVC_OPD_OUT_BID_PRICE}&m=\${SVC_OPD_MODE}&x=\${SVC_OPD_OTHER}">`
  const body = Buffer.concat([
    bytes(1, 'auction'),
    seatOf('s1', bidOf(bytes(6, adm), bytes(22, 'https://b.example/'), bytes(23, macro))),
    bytes(4, 'USD'),
  ])
  const { out, priced } = run(body)
  t.equal(out.reason, null)
  t.equal(priced.length, 1)
  t.match(priced[0], { bidId: 'b1', price: 2, priceText: '2', currency: 'USD' })
  t.same(out.body, expected(body, priced))
  const [bid] = fieldsOf(lastOf(fieldsOf(out.body), 2, 2)!.value)
  const fields = fieldsOf(bid!.value)
  t.equal(lastOf(fields, 3, 1)!.value.readDoubleLE(), 1.8)
  t.equal(
    lastOf(fields, 6, 2)!.value.toString(),
    `<img src="https://a.example/?svc_opd=${context}&p=\${AUCTION_PRICE}&in=2&out=1.8&m=revenue&x=\${SVC_OPD_OTHER}">`,
  )
  t.equal(lastOf(fields, 23, 2)!.value.toString(), `svc_opd=${context}`)
})

t.test('a bid without the macro in adm, nurl or burl keeps its bytes', async (t) => {
  const bare = bytes(1, [bytes(1, 'b0'), bytes(2, '1'), double(3, 2), bytes(23, macro)])
  const alone = seatOf('s1', bare)
  t.equal(run(alone).out.body, alone, 'the very Buffer')
  t.same(run(alone).reasons, ['no_macro'])
  const body = seatOf('s1', bare, bidOf(), bare)
  const { out, priced } = run(body)
  t.same(out.body, expected(body, priced))
})

t.test('of a field that is sent twice, the last value is read and spliced', async (t) => {
  const body = seatOf('s1', bidOf(double(3, 4), bytes(5, `https://u.example/?${macro}`)))
  const { out, priced } = run(body)
  t.equal(priced[0]!.price, 4)
  t.same(out.body, expected(body, priced))
  const overridden = seatOf('s1', bidOf(bytes(5, 'https://u.example/')))
  t.equal(run(overridden).out.body, overridden, 'the macro is in a value that does not count')
})

t.test('a price of another wire type is no price', async (t) => {
  const body = seatOf('s1', bytes(1, [bytes(1, 'b'), bytes(2, '1'), int(3, 2), bytes(5, macro)]))
  t.equal(run(body).out.body, body)
  t.same(run(body).reasons, ['no_price'])
})

t.test(
  'lengths that do not change keep their spelling, others are as short as they can be',
  async (t) => {
    const short = 'C'.repeat('${SVC_OPD_CONTEXT}'.length)
    const body = bytes(2, [bytes(1, [bytes(2, '1', 3), double(3, 2), bytes(5, macro, 4)], 3)], 5)
    const same = drained(
      rewriteInSlices({
        body,
        format: 'protobuf',
        request: () => anyRequest,
        requestFormat: 'protobuf',
        opd: opdSchema.parse({ enabled: true }),
        inactiveSeats: new Set(),
        rates: null,
        base: 'USD',
        price: () => ({ priceText: '1.5', inText: '2', outText: '1.5', context: short, mode: 'm' }),
      }),
    )
    t.equal(same.body.length, body.length)
    t.same(
      same.body,
      bytes(
        2,
        [bytes(1, [bytes(2, '1', 3), double(3, 1.5), bytes(5, `svc_opd=${short}`, 4)], 3)],
        5,
      ),
    )
    t.same(
      run(body).out.body,
      bytes(2, [bytes(1, [bytes(2, '1', 3), double(3, 1.8), bytes(5, `svc_opd=${context}`)])]),
    )
  },
)

t.test('a price that stays keeps its eight bytes', async (t) => {
  const body = seatOf('s1', bidOf())
  const stays = () => null
  const { out, priced } = run(body, { priceOf: stays })
  t.same(out.body, expected(body, priced, stays))
})

t.test('seats that are switched off leave their bytes out', async (t) => {
  const [on, off] = [seatOf('on', bidOf()), seatOf('off', bidOf(), bidOf())]
  const unknown = bytes(900, 'x')
  const body = Buffer.concat([off, bytes(1, 'a'), off, on, unknown, on, off])
  const { out, priced } = run(body, { inactive: ['off'] })
  t.equal(out.removed, 6)
  t.equal(out.left, 2)
  t.same(out.body, expected(Buffer.concat([bytes(1, 'a'), on, unknown, on]), priced))
  t.match(run(off, { inactive: ['off'] }).out, { removed: 2, left: 0 })
  const plain = seatOf('off', bytes(1, [double(3, 1)]))
  const both = Buffer.concat([plain, seatOf('on', bytes(1, [double(3, 1)]))])
  t.same(run(both, { inactive: ['off'] }).out.body, both.subarray(plain.length), 'without a macro')
})

const malformed: [title: string, body: Buffer][] = [
  ['a cut message', seatOf('s1', bidOf()).subarray(0, -1)],
  ['a group', Buffer.concat([seatOf('s1', bidOf()), Buffer.from([0x53, 0x54])])],
  ['a group in a bid', seatOf('s1', bidOf(Buffer.from([0x53, 0x54])))],
  ['JSON', Buffer.from(`{"seatbid":[{"bid":[{"nurl":"${macro}"}]}]}`)],
  ['field 0', Buffer.concat([seatOf('s1', bidOf()), Buffer.from([0, 0])])],
]
for (const [title, body] of malformed)
  t.test(`${title} is malformed and stays`, async (t) => {
    t.match(run(body).out, { body, reason: 'malformed', unreadable: false })
    t.equal(run(body).out.body, body)
    t.match(run(body, { inactive: ['off'] }).out, { unreadable: true })
  })

t.test('a response without a seat, and one without the marker, stay', async (t) => {
  const noSeat = bytes(3, macro)
  t.match(run(noSeat).out, { body: noSeat, reason: 'no_seatbid' })
  const noMacro = seatOf('s1', bytes(1, [double(3, 1)]))
  t.match(run(noMacro).out, { body: noMacro, reason: 'no_macro' })
})

t.test('more than 1,000 seats or 50,000 bids are too large', async (t) => {
  const empty = bytes(2, [])
  const seats = (count: number) =>
    Buffer.concat([seatOf('s1', bidOf()), ...Array<Buffer>(count - 1).fill(empty)])
  t.equal(run(seats(1000)).out.reason, null)
  t.equal(run(seats(1001)).out.reason, 'too_large')
  const bids = (count: number) =>
    bytes(2, [bidOf(), ...Array<Buffer>(count - 1).fill(bytes(1, []))])
  t.equal(run(bids(50_000)).out.reason, null)
  t.equal(run(bids(50_001)).out.reason, 'too_large')
})

t.test('a long response is read in slices, in memory that is reserved', async (t) => {
  const body = bytes(2, Array<Buffer>(20_000).fill(bidOf()))
  let reserved = 0
  const memory = {
    reserve: (count: number) => {
      reserved += count
      return true
    },
    keep: () => true,
  }
  const priced: EligibleBid[] = []
  const slices = started(body, { memory }, [], priced)
  let count = 1
  for (; !slices.next().done; ) count++
  t.ok(count > 400, `${count} slices`)
  t.ok(reserved > body.length + 20_000 * 400, `${reserved} bytes`)
  t.equal(priced.length, 20_000)
  t.match(run(body, { memory: { reserve: () => false, keep: () => false } }).out, {
    body,
    reason: 'too_large',
  })
})

t.test(
  'a million small fields, and 100,000 macros in one bid, are worked off in slices',
  async (t) => {
    const sliced = (body: Buffer) => {
      const slices = started(body, {}, [], [])
      for (let count = 1; ; count++) {
        const slice = slices.next()
        if (slice.done) return { count, value: slice.value }
      }
    }
    const fields = sliced(seatOf('s1', bidOf(Buffer.alloc(3_000_000, int(400, 1)))))
    t.equal(fields.value.reason, null)
    t.ok(fields.count > 200, `${fields.count} slices`)
    const macros = sliced(seatOf('s1', bidOf(bytes(6, '${SVC_OPD_MODE}'.repeat(100_000)))))
    t.equal(macros.value.reason, null)
    t.ok(macros.count > 50, `${macros.count} slices`)
    const grown = sliced(seatOf('s1', bidOf(bytes(6, '${SVC_OPD_CONTEXT}'.repeat(100_000)))))
    t.equal(grown.value.reason, 'too_large', '30 MB')
  },
)

t.test('a request that cannot be read leaves the bid as it is', async (t) => {
  const body = seatOf('s1', bidOf())
  for (const request of [null, Buffer.from([0x0b]), Buffer.from('{"imp":[]}')]) {
    const { out, reasons } = run(body, { request })
    t.equal(out.body, body)
    t.same(reasons, ['request'])
  }
})

t.test(
  'a response in Protocol Buffers to a request in JSON is priced, and the other way round',
  async (t) => {
    const price = () => ({
      priceText: '1',
      inText: '2',
      outText: '1',
      context: 'CTX',
      mode: 'revenue',
    })
    const common = {
      opd: opdSchema.parse({ enabled: true }),
      inactiveSeats: new Set<string>(),
      rates: null,
      base: 'USD',
      price,
    }
    const pad = ' '.repeat(70_000)
    for (const text of ['{"imp":[{"id":"1"}]}', `{${pad}"imp":[{"id":"1"}]}`]) {
      const json = drained(
        rewriteInSlices({
          ...common,
          body: seatOf('s1', bidOf()),
          format: 'protobuf',
          request: () => text,
        }),
      )
      t.ok(json.body.includes('svc_opd=CTX'))
    }
    const body = Buffer.from(`{"seatbid":[{"bid":[{"impid":"1","price":2,"nurl":"${macro}"}]}]}`)
    for (const request of [anyRequest, Buffer.concat([bytes(900, pad), anyRequest])]) {
      const other = drained(
        rewriteInSlices({ ...common, body, request: () => request, requestFormat: 'protobuf' }),
      )
      t.ok(other.body.includes('svc_opd=CTX'))
    }
  },
)

// --- random messages ---

const width = fc.integer({ min: 1, max: 4 })
const url = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 8 }),
      fc.constantFrom(
        macro,
        '${SVC_OPD_CONTEXT}',
        '${SVC_OPD_MODE}',
        '${SVC_OPD_IN_BID_PRICE}',
        '${SVC_OPD_OUT_BID_PRICE}',
        '${SVC_OPD_X}',
        '${AUCTION_PRICE}',
        '${SVC_OPD_',
      ),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(''))
const unknown = fc.oneof(
  fc
    .tuple(fc.integer({ min: 200, max: 5000 }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), width)
    .map((value) => int(...value)),
  fc.tuple(fc.integer({ min: 200, max: 5000 }), fc.double()).map((value) => double(...value)),
  fc
    .tuple(fc.integer({ min: 200, max: 5000 }), fc.uint8Array({ maxLength: 9 }), width)
    .map(([number, value, size]) => bytes(number, Buffer.from(value), size)),
)
/** Attributes and blocked categories, packed and not; OPD does not read them. */
const numbers = fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 4 })
const lists = numbers.chain((values) =>
  fc.constantFrom(
    Buffer.concat(values.map((value) => int(11, value))),
    bytes(
      11,
      values.map((value) => int(1, value).subarray(1)),
    ),
  ),
)
const price = fc.oneof(
  fc.double({ min: 0, max: 1e4, noNaN: true }),
  fc.integer({ min: 1, max: 500 }).map((cents) => cents / 100),
)
const randomBid = fc
  .tuple(
    fc.tuple(fc.string({ maxLength: 6 }), width).map(([id, size]) => bytes(1, id, size)),
    fc.tuple(fc.constantFrom('1', '1', '1', '2'), width).map(([id, size]) => bytes(2, id, size)),
    price.map((value) => double(3, value)),
    fc.array(
      fc.tuple(fc.constantFrom(5, 6, 22, 23), url, width).map((value) => bytes(...value)),
      { maxLength: 5 },
    ),
    fc.array(fc.oneof(unknown, lists), { maxLength: 4 }),
  )
  .chain(([id, impid, amount, urls, others]) =>
    fc.shuffledSubarray([id, impid, amount, ...urls, ...others], {
      minLength: 3 + urls.length + others.length,
    }),
  )
const randomSeat = fc
  .tuple(
    fc.array(
      fc.tuple(randomBid, width).map(([parts, size]) => bytes(1, parts, size)),
      { maxLength: 4 },
    ),
    fc.array(unknown, { maxLength: 2 }),
    fc.option(fc.constantFrom('s1', 'off')),
  )
  .map(([bids, others, name]) => [...others, ...bids, ...(name === null ? [] : [bytes(2, name)])])
const randomResponse = fc
  .tuple(
    fc.array(
      fc.tuple(randomSeat, width).map(([parts, size]) => bytes(2, parts, size)),
      { maxLength: 4 },
    ),
    fc.array(unknown, { maxLength: 2 }),
    fc.boolean(),
  )
  .chain(([seats, others, named]) => {
    const parts = [...seats, ...others, ...(named ? [bytes(4, 'USD')] : [])]
    return fc.shuffledSubarray(parts, { minLength: parts.length })
  })
  .map((parts) => Buffer.concat(parts))

t.test('in random messages the expected fields change, and every other byte stays', async (t) => {
  let changed = 0
  fc.assert(
    fc.property(randomResponse, (body) => {
      const { out, priced } = run(body)
      if (priced.length > 0) changed++
      deepStrictEqual(out.body, expected(body, priced))
    }),
    { seed: 31, numRuns: 3000 },
  )
  t.ok(changed > 300, `${changed} with priced bids`)
})

t.test('cut and mutated messages never fail, and never get a wrong price', async (t) => {
  let refused = 0
  let changed = 0
  fc.assert(
    fc.property(
      randomResponse,
      fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 3 }),
      fc.option(fc.nat()),
      (body, edits, cut) => {
        const bytesOf = Buffer.from(body)
        for (const [offset, value] of edits)
          if (body.length > 0) bytesOf[offset % body.length] = value
        const sent = cut === null ? bytesOf : bytesOf.subarray(0, cut % (body.length + 1))
        const { out, priced } = run(sent, { inactive: [] })
        if (out.reason === 'malformed') {
          refused++
          deepStrictEqual(out.body, sent)
        } else if (priced.length > 0) {
          changed++
          deepStrictEqual(out.body, expected(sent, priced))
        } else deepStrictEqual(out.body, sent)
      },
    ),
    { seed: 31, numRuns: 6000 },
  )
  t.ok(refused > 300 && changed > 300, `${refused} refused, ${changed} changed`)
})
