import { createCipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { createContextCodec, Nonces } from '../../../opd/pricing/context.ts'
import { writeRecord } from '../../../opd/pricing/record.ts'
import { vias } from '../../../opd/shared/arms.ts'
import { devices, formats } from '../../../opd/shared/facets.ts'
import { LocalBidLog } from '../../../opd/state/bid-log.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { decided } from '../../support/decision-record.ts'
import { definedTag } from '../../support/poly1305.ts'

const hour = 3_600_000
const time = 1_800_000_000_000
const key = (id: number) => ({ id, secret: randomBytes(32) })
const keys = [key(1)]
const nonces = new Nonces()
const codec = createContextCodec(keys, 48 * hour, nonces)

/** Encodes any id, again and again. */
class RepeatedNonces extends Nonces {
  override use(id: string, into: Buffer, offset: number): void {
    into.write(id, offset, 'base64url')
  }
}
const repeating = createContextCodec(keys, 48 * hour, new RepeatedNonces())

const record = (over: Partial<DecisionRecord> = {}) =>
  decided({
    id: codec.nextId(),
    bidId: 'bid-1',
    ...{ propensity: 0.995, inBa: '1.00', outBa: '0.85', modelVersion: 7, decidedAt: time },
    ...{ publisher: 'pub-1', domain: 'news.example', features: new Uint8Array([1, 2, 3, 250]) },
    ...over,
  })

const facets = fc.record(
  {
    country: fc.constantFrom('', 'DEU', 'other'),
    device: fc.constantFrom(...devices),
    format: fc.constantFrom(...formats),
    size: fc.constantFrom('', '300x250', '99999x99999'),
    deal: fc.stringMatching(/^.{0,16}$/),
  },
  { noNullPrototype: true },
)

t.test('any record is decoded as it was encoded', async (t) => {
  fc.assert(
    fc.property(
      fc.record({
        bidId: fc.string({ unit: 'binary', maxLength: 600 }),
        supplier: fc.stringMatching(/^[a-z0-9][a-z0-9_-]{0,62}$/),
        mode: fc.constantFrom('revenue' as const, 'margin' as const),
        arm: fc.constantFrom('holdout' as const, 'floor' as const, 'fixed' as const),
        propensity: fc.double({ min: 0, max: 1, noNaN: true }),
        inBa: fc.stringMatching(/^[1-9]\d{0,9}\.\d{1,16}$/),
        priceDsp: fc.option(fc.stringMatching(/^[1-9]\d{0,9}\.\d{1,16}$/), { nil: undefined }),
        decidedAt: fc.integer({ min: time - 40 * hour, max: time }),
        modelVersion: fc.nat({ max: 2 ** 30 - 1 }),
        via: fc.constantFrom(...vias),
        publisher: fc.stringMatching(/^.{0,16}$/),
        domain: fc.stringMatching(/^.{0,24}$/),
        seat: fc.option(fc.stringMatching(/^.{1,16}$/), { nil: undefined }),
        facets: fc.option(facets, { nil: undefined }),
        trains: fc.boolean(),
        features: fc.uint8Array({ maxLength: 90 }),
      }),
      (over) => {
        const { priceDsp, seat, facets: known, ...others } = over
        const before = record({
          ...others,
          ...(priceDsp === undefined ? {} : { priceDsp }),
          ...(seat === undefined ? {} : { seat }),
          ...(known === undefined ? {} : { facets: known }),
        })
        const { text } = codec.encode(before)
        if (text.length > 512 || !/^[A-Za-z0-9_-]+$/.test(text)) throw new Error(text)
        const { state, record: after } = codec.decode(text, before.bidId, time)
        t.equal(state, 'valid')
        if (!isDeepStrictEqual(after, before)) t.strictSame(after, before)
      },
    ),
  )
})

t.test('the longest names leave it within 512 characters', async (t) => {
  const longest = record({
    bidId: 'x'.repeat(100_000),
    supplier: 's'.repeat(63),
    publisher: 'ü'.repeat(32),
    domain: 'd'.repeat(96),
    inBa: '9'.repeat(300),
    outBa: `0.${'0'.repeat(200)}123456789`,
    currency: 'X'.repeat(40),
    features: new Uint8Array(100),
  })
  const { text, withFeatures } = codec.encode(longest)
  t.ok(text.length <= 512)
  t.equal(withFeatures, false)
  const back = codec.decode(text, longest.bidId, time).record!
  t.equal(back.publisher, longest.publisher)
  t.equal(back.inBa, `${'9'.repeat(30)}${'0'.repeat(270)}`)
  t.equal(back.outBa, longest.outBa)
})

t.test('the longest of everything with a price_dsp leaves it within 512 characters', async (t) => {
  const dear = '9'.repeat(300)
  const longest = record({
    supplier: 's'.repeat(63),
    publisher: 'ü'.repeat(32),
    domain: 'd'.repeat(96),
    inBa: dear,
    outBa: `0.${'0'.repeat(200)}${'1'.repeat(60)}`,
    priceDsp: `1234567890.${'1'.repeat(60)}`,
    currency: 'X'.repeat(40),
    features: new Uint8Array(100),
    theta: 1.25,
    lambda: 0.5,
    floor: 0.25,
    guard: 'start',
  })
  const { text } = codec.encode(longest)
  t.ok(text.length <= 512, `${text.length}`)
  const back = codec.decode(text, longest.bidId, time).record!
  const names = ({ supplier, publisher, domain }: DecisionRecord) => [supplier, publisher, domain]
  t.same(names(back), names(longest))
  t.equal(back.priceDsp, '1234567890.1111111')
  t.equal(back.inBa, `${'9'.repeat(17)}${'0'.repeat(283)}`)
})

t.test(
  'a context leaves out the explanation, then the facets, then the seat, so that its features fit',
  async (t) => {
    const explained = { theta: 1.25, lambda: 0.5, floor: 0.25, guard: 'start' } as const
    const seat = 'seat'.repeat(16)
    const features = new Uint8Array(51).fill(7)
    const facets = {
      ...{ country: 'DEU', device: 'phone', format: 'banner', size: '300x250', deal: 'deal-7' },
    }
    const names = { seat, facets, publisher: 'p'.repeat(64), domain: 'd'.repeat(96) }
    const back = (supplier: string) => {
      const complete = record({ ...explained, ...names, features, supplier })
      const { text, withFeatures } = codec.encode(complete)
      t.ok(text.length <= 512 && withFeatures, supplier)
      return codec.decode(text, complete.bidId, time).record!
    }
    t.match(back('s'.repeat(2)), { ...names, theta: 1.25, features })
    const close = back('s'.repeat(10))
    t.match(close, { ...names, features })
    t.notOk('theta' in close)
    const { facets: _facets, ...withSeat } = names
    const closer = back('s'.repeat(30))
    t.match(closer, { ...withSeat, features })
    t.notOk('facets' in closer)
    const { seat: _seat, ...others } = withSeat
    const longest = back('s'.repeat(63))
    t.match(longest, { ...others, features })
    t.notOk('seat' in longest || 'facets' in longest)
  },
)

t.test('ids never repeat, and hold what the context carries', async (t) => {
  const seen = new Set(Array.from({ length: 10_000 }, () => nonces.next()))
  const other = new Nonces()
  for (let index = 0; index < 10_000; index++) seen.add(other.next())
  t.equal(seen.size, 20_000)
  t.ok([...seen].every((id) => /^[A-Za-z0-9_-]{16}$/.test(id)))
})

t.test('an id encodes one context, and only the id that was drawn last', async (t) => {
  const [earlier, latest] = [record(), record()]
  t.throws(() => codec.encode(earlier), /used nonce/)
  t.equal(codec.decode(codec.encode(latest).text, 'bid-1', time).state, 'valid')
  t.throws(() => codec.encode(latest), /used nonce/)
  const restarted = createContextCodec(keys, hour, nonces)
  t.throws(() => restarted.encode(latest), /used nonce/, 'with the codec of a later configuration')
})

t.test('the same decision under the same key has the same bytes', async (t) => {
  const made =
    'AQEDAwMDAwMDAwMDAwmFSzGut9KEbAiHBajNPt83HNsh_SDEvRSyf8E-96k_1o6ZsR_RhIJN_yrmntPIHML8-0kXbjImr-KMEKr4qTI2GatwpgQ1XkjcC-mCE1OEBJ2n6SBifQybNyjERq0y0J36JNkW'
  const fixed = createContextCodec(
    [{ id: 1, secret: Buffer.alloc(32, 7) }],
    hour,
    new RepeatedNonces(),
  )
  const { text } = fixed.encode(
    record({
      id: 'AwMDAwMDAwMDAwMJ',
      bidId: 'bid-ü',
      mode: 'margin',
      arm: 'explored',
      propensity: 0.25,
      winIn: 0.5,
      winOut: 0.25,
      theta: 1.25,
      lambda: 0.5,
      floor: 0.25,
      guard: 'start',
      priceDsp: '2.6',
    }),
  )
  t.equal(text, made)
})

t.test('a context is sealed as decision 13 says', async (t) => {
  const { id, secret } = keys[0]!
  const cipherKey = Buffer.from(hkdfSync('sha256', secret, '', 'bidweir context v1', 32))
  for (const bidId of ['bid-ü', 'x'.repeat(171)]) {
    const one = record({ bidId })
    const plain = Buffer.alloc(512)
    const plainEnd = writeRecord(plain, 0, one)
    plain.set(one.features, plainEnd)
    const nonce = Buffer.from(one.id, 'base64url')
    const counter = Buffer.alloc(16)
    nonce.copy(counter, 0, 0, 8)
    counter.writeBigUInt64BE(BigInt(nonce.readUInt32BE(8)) * 26n, 8)
    const stream = createCipheriv('aes-256-ctr', cipherKey, counter)
    const macKey = stream.update(Buffer.alloc(32))
    const head = Buffer.concat([Buffer.from([1, id]), nonce])
    const sealed = Buffer.concat([
      head,
      stream.update(plain.subarray(0, plainEnd + one.features.length)),
    ])
    const isShort = bidId.length < 171
    const lengths = Buffer.from([0, sealed.length, isShort ? 0 : 1, 0])
    const data = isShort ? bidId : createHash('sha256').update(bidId).digest('base64url')
    const tag = definedTag(macKey, Buffer.concat([lengths, sealed, Buffer.from(data)]))
    t.equal(codec.encode(one).text, Buffer.concat([sealed, tag]).toString('base64url'))
  }
})

t.test('a context encrypts the bytes that the bid log wrote', async (t) => {
  const log = new LocalBidLog({ ttl: hour, now: () => time })
  for (let index = 0; index < 20_000; index++) {
    const one = record({
      bidId: `bid-${index}`,
      publisher: 'p'.repeat(index % 65),
      domain: 'd'.repeat((index * 7) % 97),
      features: new Uint8Array(randomBytes(index % 60)),
    })
    const { text, withFeatures } = codec.encode(one, log.put(one))
    if (index % 97 === 0) t.strictSame(repeating.encode(one), { text, withFeatures }, `${index}`)
    const { record: back } = codec.decode(text, one.bidId, time)
    if (!isDeepStrictEqual(back?.domain, one.domain)) t.strictSame(back, one)
    if (!isDeepStrictEqual(log.find(one.bidId), [one])) t.strictSame(log.find(one.bidId), [one])
  }
})

t.test('each name of a record is its own, whatever the record before had', async (t) => {
  const names = { supplier: 'beta', publisher: 'pub-2', domain: 'other.example', currency: 'EUR' }
  for (const [name, value] of Object.entries(names)) {
    const [one, other] = [record(), record({ [name]: value })]
    const texts = [one, other, one].map((item) => repeating.encode(item).text)
    const back = texts.map((text) => codec.decode(text, 'bid-1', time).record)
    t.strictSame(back, [one, other, one], name)
  }
})

t.test('contexts of one process decode in any order', async (t) => {
  const ring = [key(1)]
  const [writer, reader] = [new Nonces(), new Nonces()].map((nonces) =>
    createContextCodec(ring, hour, nonces),
  )
  const made = Array.from({ length: 300 }, () => {
    const one = record({ id: writer!.nextId() })
    return { one, text: writer!.encode(one).text }
  })
  const cipherTexts = new Set(made.map(({ text }) => text.slice(19, 60)))
  t.equal(cipherTexts.size, made.length, 'no two have the same key stream')
  for (const { one, text } of made.toReversed())
    t.strictSame(reader!.decode(text, 'bid-1', time).record, one)
  // A context that was made again, out of order, has the same bytes.
  const again = createContextCodec(ring, hour, new RepeatedNonces())
  for (const { one, text } of [made[7]!, made[299]!, made[31]!, made[32]!])
    t.equal(again.encode(one).text, text)
})
