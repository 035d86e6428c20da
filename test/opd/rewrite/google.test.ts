/** The rewriter and Google's Protocol Buffers for Python agree: on messages that it writes, and on messages that are damaged. */
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { drained } from '../../../opd/base/slices.ts'
import { opdSchema } from '../../../opd/config.ts'
import { rewriteInSlices } from '../../../opd/rewrite/rewrite.ts'
import type { BidReason, EligibleBid, PriceBid } from '../../../opd/shared/reasons.ts'
import type { OpenRtbFormat } from '../../../opd/types.ts'
import { googleProtobuf, protobufAbsent } from '../../support/google-protobuf.ts'
import { type RewriteCase, run as runCase, textsOf } from '../../support/rewrite.ts'
import { vectors } from '../../support/vectors.ts'

const skip = protobufAbsent

function run(
  format: OpenRtbFormat,
  body: Buffer,
  request: Buffer,
  price: PriceBid,
  enabled = true,
) {
  const reasons: BidReason[] = []
  const priced: EligibleBid[] = []
  const out = drained(
    rewriteInSlices({
      body,
      format,
      request: () => request,
      requestFormat: format,
      opd: opdSchema.parse({ enabled }),
      inactiveSeats: new Set(),
      rates: null,
      base: 'USD',
      price: (bid) => {
        priced.push(bid)
        return price(bid)
      },
      onBid: (reason) => reasons.push(reason),
    }),
  )
  return { out, reasons, priced }
}

// --- the vectors of the rewriter ---

const fifthOff: PriceBid = ({ price, floor, rate }) => {
  const out = rate === null || price <= floor ? price : Math.max(floor, price * 0.8)
  const text = out === price ? null : String(Math.ceil(out * 1e6 - 1e-6) / 1e6)
  return { priceText: text, inText: 'IN', outText: 'OUT', context: 'CTX', mode: 'revenue' }
}

/** What pricing gets, with amounts as numbers: their texts are those of the format. */
const decided = (bids: readonly EligibleBid[]) =>
  bids.map(({ priceText, floorText, ...bid }) => ({
    ...bid,
    price: Number(priceText),
    floor: floorText === undefined ? bid.floor : Number(floorText),
  }))

t.test('each vector of JSON has the same decisions in Protocol Buffers', { skip }, async (t) => {
  const texts = vectors.flatMap((vector) =>
    vector.response === undefined ? [] : [{ ...vector, response: vector.response }],
  )
  const encoded = googleProtobuf(
    texts.flatMap(({ request, response }) => [
      ['encode', 'BidRequest', request],
      ['encode', 'BidResponse', response],
    ]),
  ) as (string | null)[]
  const outputs: { title: string; json: string; made: string }[] = []
  for (const [index, { id, title, request, response, opdEnabled }] of texts.entries()) {
    const [sentRequest, sentResponse] = encoded.slice(2 * index, 2 * index + 2)
    if (sentRequest == null || sentResponse == null) continue
    const json = run('json', Buffer.from(response), Buffer.from(request), fifthOff, opdEnabled)
    const body = Buffer.from(sentResponse, 'hex')
    const made = run('protobuf', body, Buffer.from(sentRequest, 'hex'), fifthOff, opdEnabled)
    const name = `${id}: ${title}`
    t.equal(made.out.reason, json.out.reason, name)
    t.same(made.reasons, json.reasons, name)
    t.same(decided(made.priced), decided(json.priced), name)
    outputs.push({
      title: name,
      json: json.out.body.toString(),
      made: made.out.body.toString('hex'),
    })
  }
  const again = googleProtobuf(outputs.map(({ json }) => ['encode', 'BidResponse', json]))
  for (const [index, { title, made }] of outputs.entries()) t.equal(made, again[index], title)
  t.ok(outputs.length > vectors.length / 2, `${outputs.length} of ${vectors.length} vectors`)
})

const marker = 'SVC_OPD_CONTEXT'
/** The feature is the first of `bundle` and `id` that is sent; a library sends them in the order of their numbers. */
const orderCounts = new Set(['features of an app'])
const folder = new URL('fixtures/cases/', import.meta.url)
const cases = readdirSync(folder).flatMap(
  (file) => JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as RewriteCase[],
)

t.test(
  'each case of the rewriter has the same decisions in Protocol Buffers',
  { skip },
  async (t) => {
    const encoded = googleProtobuf(
      cases.flatMap((rewriteCase) => {
        const { request, response } = textsOf(rewriteCase)
        return [
          ['encode', 'BidRequest', request],
          ['encode', 'BidResponse', response],
        ]
      }),
    ) as (string | null)[]
    const outputs: { title: string; json: string; made: string }[] = []
    for (const [index, rewriteCase] of cases.entries()) {
      const [request, response] = encoded.slice(2 * index, 2 * index + 2)
      if (request == null || response == null || orderCounts.has(rewriteCase.title)) continue
      // What the schema does not name has no place in the message: the case is about that.
      const isKept = Buffer.from(response, 'hex').includes(marker)
      if (!isKept && textsOf(rewriteCase).response.includes(marker)) continue
      const json = runCase(rewriteCase)
      const made = runCase(rewriteCase, {
        format: 'protobuf',
        response: Buffer.from(response, 'hex'),
        request: Buffer.from(request, 'hex'),
      })
      const { title } = rewriteCase
      t.same(made.reasons, json.reasons, title)
      t.same(decided(made.priced), decided(json.priced), title)
      for (const key of ['reason', 'removed', 'left', 'unreadable'] as const)
        t.equal(made.out[key], json.out[key], `${title}: ${key}`)
      const [body, wanted] = [made.out, json.out].map((out) => out.body)
      outputs.push({ title, json: wanted!.toString(), made: body!.toString('hex') })
    }
    const again = googleProtobuf(outputs.map(({ json }) => ['encode', 'BidResponse', json]))
    for (const [index, { title, made }] of outputs.entries()) t.equal(made, again[index], title)
    t.ok(outputs.length > cases.length / 3, `${outputs.length} of ${cases.length} cases`)
  },
)

// --- messages of Google's library ---

const request = Buffer.from([0x12, 0x03, 0x0a, 0x01, 0x31])
const values = {
  CONTEXT: 'C'.repeat(300),
  IN_BID_PRICE: 'IN',
  OUT_BID_PRICE: 'OUT',
  MODE: 'revenue',
}
const half: PriceBid = ({ price }) => ({
  priceText: String(price / 2),
  inText: values.IN_BID_PRICE,
  outText: values.OUT_BID_PRICE,
  context: values.CONTEXT,
  mode: values.MODE,
})

/** What Google's library finds wrong with what the rewriter makes of messages; and how many of them have priced bids. */
function compare(messages: readonly Buffer[]) {
  let changed = 0
  let refused = 0
  const jobs = messages.map((body): Parameters<typeof googleProtobuf>[0][number] => {
    const { out, priced } = run('protobuf', body, request, half)
    if (priced.length > 0) changed++
    if (out.reason === 'malformed') refused++
    const expected = out.reason === 'malformed' ? null : values
    return ['fault', body.toString('hex'), out.body.toString('hex'), expected]
  })
  return { faults: googleProtobuf(jobs).filter((fault) => fault !== null), changed, refused }
}

/** Messages that Google's library, or the test, made. */
const hexes = (job: Parameters<typeof googleProtobuf>[0][number]) =>
  (googleProtobuf([job])[0] as string[]).map((hex) => Buffer.from(hex, 'hex'))
const sent = (seed: number, count: number) => hexes(['random', seed, count])

t.test(
  'what the rewriter makes of random messages decodes to what is expected',
  { skip },
  async (t) => {
    const { faults, changed, refused } = compare(sent(1, 2000))
    t.same(faults, [])
    t.equal(refused, 0)
    t.ok(changed > 500, `${changed} with priced bids`)
  },
)

t.test(
  'messages in other spellings mean to the rewriter what they mean to Google',
  { skip },
  async (t) => {
    const seed = Number(process.env['FUZZ_SEED'] ?? 31)
    const count = Number(process.env['FUZZ_CASES'] ?? 3000)
    t.comment(`FUZZ_SEED=${seed} FUZZ_CASES=${count}`)
    const { faults, changed, refused } = compare(hexes(['respelled', seed, count, false]))
    t.same(faults, [])
    t.equal(refused, 0)
    t.ok(changed > count / 4, `${changed} with priced bids`)
    const grouped = compare(hexes(['respelled', seed, count, true]))
    t.same(grouped.faults, [])
    t.ok(grouped.refused > count / 10 && grouped.changed > count / 10, `${grouped.refused} refused`)
  },
)

t.test('cut and mutated messages get no wrong price', { skip }, async (t) => {
  const damaged = sent(2, 200).flatMap((body) => {
    if (body.length === 0) return []
    const edits = fc.sample(fc.tuple(fc.nat({ max: 4 }), fc.nat(), fc.nat({ max: 255 })), {
      numRuns: 15,
      seed: body.length,
    })
    return edits.map(([kind, offset, value]) => {
      const edited = Buffer.from(body)
      if (kind === 0) return edited.subarray(0, offset % body.length)
      for (let n = 0; n < kind; n++) edited[(offset * (n + 1)) % body.length] = value ^ n
      return edited
    })
  })
  const { faults, changed, refused } = compare(damaged)
  t.same(faults, [])
  t.ok(
    changed > 500 && refused > 500,
    `${damaged.length} messages, ${changed} changed, ${refused} refused`,
  )
})
