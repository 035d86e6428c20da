/** The rewriter agrees with JSON.parse on any bytes: whether they are JSON, and their values. */
import { isUtf8 } from 'node:buffer'
import fc from 'fast-check'
import t from 'tap'
import { createScanner } from '../../../opd/json/scanner.ts'
import { type ResponseSpans, readBidResponse } from '../../../opd/openrtb/response.ts'
import { documents, mutated, parses, respelled, strings } from '../../support/json-bytes.ts'
import { run } from '../../support/rewrite.ts'

const runs = { numRuns: 1500 }

const scans = (body: Buffer) => createScanner(body) !== null

t.test('what is JSON: documents, mutated documents, and any bytes', async (t) => {
  fc.assert(
    fc.property(
      fc.oneof(
        documents,
        mutated,
        fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      ),
      (body) => {
        if (scans(body) !== parses(body))
          throw new Error(`${isUtf8(body)} ${JSON.stringify(body.toString('latin1'))}`)
      },
    ),
    { numRuns: 6000 },
  )
  t.pass()
})

t.test('a body at any offset of its memory', async (t) => {
  fc.assert(
    fc.property(mutated, fc.integer({ min: 1, max: 7 }), (body, lead) => {
      const shifted = Buffer.concat([Buffer.alloc(lead), body]).subarray(lead)
      return scans(shifted) === parses(body)
    }),
    runs,
  )
  t.pass()
})

const leaves = fc.oneof(
  strings,
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
)
const bids = fc.record(
  {
    id: leaves,
    impid: leaves,
    dealid: leaves,
    mtype: leaves,
    dur: leaves,
    adm: leaves,
    ext: fc.jsonValue(),
  },
  { requiredKeys: [] },
)
const seats = fc.array(fc.record({ seat: strings, bid: fc.array(bids, { maxLength: 4 }) }), {
  maxLength: 5,
})

t.test('values are those of JSON.parse', async (t) => {
  fc.assert(
    fc.property(seats, fc.integer(), (seatbid, seed) => {
      const text = respelled({ cur: 'EUR', seatbid }, seed)
      const answer = readBidResponse(createScanner(Buffer.from(text))!, null) as ResponseSpans
      const parsed = JSON.parse(text) as { seatbid: typeof seatbid }
      for (const [position, seat] of parsed.seatbid.entries()) {
        if (answer.seats[position]!.name !== seat.seat) return false
        for (const [index, bid] of seat.bid.entries()) {
          const read = answer.seats[position]!.bids[index]!
          if (typeof bid.id === 'string' && read.bidId !== bid.id) return false
          for (const key of ['impid', 'dealid', 'mtype', 'dur'] as const)
            if (!Object.is(read[key], bid[key])) return false
        }
      }
      return answer.currency === 'EUR'
    }),
    runs,
  )
  t.pass()
})

t.test('what is cut leaves JSON without those seats, and nothing else changed', async (t) => {
  fc.assert(
    fc.property(seats, fc.integer(), fc.nat(), (seatbid, seed, pick) => {
      const raw = respelled({ a: 1, seatbid, z: [1] }, seed)
      const gone = seatbid[pick % (seatbid.length || 1)]?.seat ?? 'none'
      const { out, came } = run({ title: '', opd: null, inactive: [gone], raw })
      const kept = (JSON.parse(raw) as { seatbid: typeof seatbid }).seatbid.filter(
        ({ seat, bid }) => seat !== gone || bid.length === 0,
      )
      if (kept.length === seatbid.length) return out.body === came
      const left = JSON.parse(out.body.toString()) as { seatbid: unknown }
      return JSON.stringify(left) === JSON.stringify({ a: 1, seatbid: kept, z: [1] })
    }),
    runs,
  )
  t.pass()
})

const texts = fc
  .array(
    fc.oneof(
      strings,
      fc.constantFrom(
        'svc_opd=',
        '${SVC_OPD_CONTEXT}',
        '${SVC_OPD_MODE}',
        '${SVC_OPD_IN_BID_PRICE}',
        '${SVC_OPD_',
        '}',
        '${AUCTION_PRICE}',
        'svc_opd=${SVC_OPD_CONTEXT}',
      ),
    ),
    { maxLength: 6 },
  )
  .map((parts) => parts.join(''))
const values = { CONTEXT: 'CTX', MODE: 'revenue', IN_BID_PRICE: '2', OUT_BID_PRICE: '1.5' }
const expanded = (text: string) =>
  text.replace(
    /\$\{SVC_OPD_(CONTEXT|MODE|IN_BID_PRICE|OUT_BID_PRICE)\}/g,
    (_all, name: keyof typeof values) => values[name],
  )

t.test('macros become what they stand for, however their letters are spelled', async (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ adm: texts, nurl: texts, lurl: texts }), { maxLength: 5 }),
      fc.integer(),
      (fields, seed) => {
        const given = fields.map((more) => ({ id: 'b', impid: '1', price: 2, ...more }))
        const raw = respelled({ seatbid: [{ bid: given }] }, seed)
        const { out, came, priced } = run({ title: '', raw })
        const goes = ({ adm, nurl }: { adm: string; nurl: string }) =>
          [adm, nurl].some((text) => text.includes('svc_opd=${SVC_OPD_CONTEXT}'))
        const wanted = given.map((bid) =>
          goes(bid)
            ? {
                ...bid,
                price: 1.5,
                adm: expanded(bid.adm),
                nurl: expanded(bid.nurl),
                lurl: expanded(bid.lurl),
              }
            : bid,
        )
        if (priced.length === 0 && out.body !== came) return false
        return out.body.toString() === raw
          ? priced.length === 0
          : JSON.stringify(JSON.parse(out.body.toString())) ===
              JSON.stringify({ seatbid: [{ bid: wanted }] }) ||
              JSON.stringify(JSON.parse(raw)) !== JSON.stringify({ seatbid: [{ bid: given }] })
      },
    ),
    runs,
  )
  t.pass()
})
