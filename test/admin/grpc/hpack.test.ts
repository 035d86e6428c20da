/** The compression of header fields: the examples of RFC 7541, and malformed lists. */
import * as fc from 'fast-check'
import t from 'tap'
import { encodeHeaders, HeaderDecoder } from '../../../admin/grpc/hpack.ts'

function decoded(decoder: HeaderDecoder, hex: string): string[] | null {
  const bytes = Buffer.from(hex.replaceAll(' ', ''), 'hex')
  const fields: string[] = []
  const isWhole = decoder.decode(bytes, 0, bytes.length, (name, value) => {
    fields.push(`${name}: ${value}`)
  })
  return isWhole ? fields : null
}

const www = [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com']

t.test('requests in Huffman code share a dynamic table (C.4)', async (t) => {
  const decoder = new HeaderDecoder()
  t.same(decoded(decoder, '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff'), www)
  t.same(decoded(decoder, '8286 84be 5886 a8eb 1064 9cbf'), [...www, 'cache-control: no-cache'])
  t.same(decoded(decoder, '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf'), [
    ...[':method: GET', ':scheme: https', ':path: /index.html', ':authority: www.example.com'],
    'custom-key: custom-value',
  ])
})

t.test('literals that are not added, and those that never are (C.2)', async (t) => {
  const decoder = new HeaderDecoder()
  t.same(decoded(decoder, '040c 2f73 616d 706c 652f 7061 7468'), [':path: /sample/path'])
  t.same(decoded(decoder, '1008 7061 7373 776f 7264 0673 6563 7265 74'), ['password: secret'])
  t.equal(decoded(decoder, 'be'), null, 'nothing was added')
})

t.test('entries are evicted when the table is full, or made smaller', async (t) => {
  const decoder = new HeaderDecoder()
  const literal = (name: string, value: string) =>
    `40${Buffer.from([name.length]).toString('hex')}${Buffer.from(name).toString('hex')}${Buffer.from([value.length]).toString('hex')}${Buffer.from(value).toString('hex')}`
  // 100 bytes each, with the overhead of 32: 40 of them are 4,000 of 4,096 bytes.
  for (let n = 10; n < 60; n++) decoded(decoder, literal(`name-${n}`, 'v'.repeat(61)))
  t.same(decoded(decoder, 'be'), [`name-59: ${'v'.repeat(61)}`])
  t.same(decoded(decoder, 'e5'), [`name-20: ${'v'.repeat(61)}`], 'the oldest of 40')
  t.equal(decoded(decoder, 'e6'), null)
  t.same(decoded(decoder, '20be'), null, 'a table of 0 bytes is empty')
  t.same(decoded(decoder, `3fe11f${literal('a', 'b')}be`), ['a: b', 'a: b'], '4,096 bytes again')
})

for (const [title, hex] of [
  ['index 0', '80'],
  ['an index beyond both tables', 'ff00'],
  ['a text that is cut', '0003 6162'],
  ['an integer without an end', 'ff ffff ffff ffff ff'],
  ['a larger table than was offered', '3fe21f'],
  ['a new size after a field', '8220'],
  ['Huffman code that is filled up with zeros', '0081 18 00'],
  ['Huffman code with the end of a text in it', '0084 ffff ffff 00'],
  ['Huffman code with a byte of padding', '0082 1fff 00'],
] as const)
  t.test(`${title} is no list`, async (t) => {
    t.equal(decoded(new HeaderDecoder(), hex), null)
  })

t.test('what is encoded is decoded', async (t) => {
  const text = fc.stringMatching(/^[a-z0-9-]{1,60}$/)
  fc.assert(
    fc.property(fc.dictionary(text, text, { maxKeys: 10 }), (fields) => {
      const bytes = encodeHeaders(fields)
      const found = decoded(new HeaderDecoder(), bytes.toString('hex'))
      t.same(
        found,
        Object.entries(fields).map(([name, value]) => `${name}: ${value}`),
      )
    }),
  )
})

t.test('random bytes end in fields or null, and throw nothing', async (t) => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      decoded(new HeaderDecoder(), Buffer.from(bytes).toString('hex'))
      return true
    }),
  )
  t.pass()
})
