/** What the encoder writes is read by zlib, whatever the messages are and whatever came before them. */
import { gunzipSync, gzipSync } from 'node:zlib'
import t from 'tap'
import { GzipEncoder, maxMessage } from '../../../opd/base/gzip-encoder.ts'
import { source } from '../../support/random.ts'
import { vectors } from '../../support/vectors.ts'

const random = source(11)
const pick = (count: number) => Math.floor(random() * count)
const responses = vectors.flatMap(({ response }) => response ?? [])

/** Messages of every kind: by how many bytes differ, how long their repetitions are, and how far back they begin. */
const kinds: Record<string, (length: number) => Buffer> = {
  'random bytes': (length) => Buffer.from(Array.from({ length }, () => pick(256))),
  'one byte': (length) => Buffer.alloc(length, pick(256)),
  'two letters': (length) => Buffer.from(Array.from({ length }, () => 97 + pick(2))),
  'repetitions at any distance': (length) => {
    const bytes = Buffer.from(Array.from({ length }, () => pick(256)))
    for (let n = 0; n < 60 && length > 1; n++) {
      const from = pick(length - 1)
      bytes.copy(bytes, from + 1 + pick(length - from - 1), from, from + pick(600))
    }
    return bytes
  },
  'a text again and again': (length) =>
    Buffer.alloc(length, Buffer.from(Array.from({ length: 1 + pick(40_000) }, () => pick(256)))),
  responses: (length) => {
    let text = ''
    while (text.length < length) text += responses[pick(responses.length)]
    return Buffer.from(text, 'latin1').subarray(0, length)
  },
}
const kindNames = Object.keys(kinds)

t.test('each message comes out as it went in', (t) => {
  const encoder = new GzipEncoder()
  const wrong: string[] = []
  const check = (name: string, message: Buffer) => {
    const encoded = encoder.encode(random() < 0.5 ? message : message.toString('latin1'))
    const read = encoded === null ? null : gunzipSync(encoded)
    if (read?.equals(message) !== true) wrong.push(`${name} of ${message.length} bytes`)
    else if (encoded!.length > message.length + 23) wrong.push(`${name} grew`)
  }
  for (const [name, make] of Object.entries(kinds)) {
    for (let length = 0; length < 40; length++) check(name, make(length))
    for (let length = 250; length < 270; length++) check(name, make(length))
    for (const length of [32_767, 32_768, 32_769, 40_000, maxMessage]) check(name, make(length))
  }
  for (let n = 0; n < 1500; n++) {
    const name = kindNames[pick(kindNames.length)]!
    check(name, kinds[name]!(pick(2 ** (2 + pick(14)))))
  }
  t.strictSame(wrong, [])
  t.end()
})

t.test('a longer message is not encoded', (t) => {
  const encoder = new GzipEncoder()
  t.equal(encoder.encode(Buffer.alloc(maxMessage + 1)), null)
  t.equal(encoder.encode('x'.repeat(maxMessage + 1)), null)
  t.ok(encoder.encode(Buffer.alloc(maxMessage)))
  t.end()
})

t.test('like messages have about as many bytes as with zlib at level 1', (t) => {
  const encoder = new GzipEncoder()
  const words = Array.from({ length: 400 }, () => pick(36 ** 6).toString(36))
  const text = (count: number) => Array.from({ length: count }, () => words[pick(400)]).join(' ')
  const url = () =>
    `https://${words[pick(400)]}.example/${pick(1e9)}?p=\${AUCTION_PRICE}&c=${pick(1e6)}`
  const bid = () =>
    JSON.stringify({
      ...{ id: `${pick(1e9)}`, cur: 'USD', bidid: pick(1e12).toString(36) },
      seatbid: [
        {
          seat: `seat-${pick(100)}`,
          bid: Array.from({ length: 2 }, () => ({
            ...{ id: `${pick(1e9)}`, impid: '1', price: random(), nurl: url(), burl: url() },
            adm: `<div title="${text(40)}"><a href="${url()}"><img src="${url()}" width="300"></a></div>`,
            ...{ adomain: [`${words[pick(400)]}.example`], crid: `${pick(1e6)}`, w: 300, h: 250 },
          })),
        },
      ],
    })
  for (let n = 0; n < 200; n++) encoder.encode(bid())
  let ours = 0
  let zlib = 0
  for (let n = 0; n < 200; n++) {
    const message = bid()
    ours += encoder.encode(message)!.length
    zlib += gzipSync(message, { level: 1 }).length
  }
  t.ok(ours < 1.05 * zlib, `${ours} and ${zlib} bytes`)
  t.end()
})
