import { randomBytes } from 'node:crypto'
import t from 'tap'
import { Poly1305, tagBytes } from '../../../opd/base/poly1305.ts'
import { definedTag } from '../../support/poly1305.ts'

const poly1305 = new Poly1305()
const key = Buffer.from(poly1305.key.buffer, poly1305.key.byteOffset, poly1305.key.byteLength)
const bytes = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')

/** `from`: the position of the message in the memory. */
function tagOf(oneTimeKey: Buffer, message: Buffer, from = 0): Buffer {
  const to = from + message.length
  oneTimeKey.copy(key)
  message.copy(poly1305.memory, from)
  poly1305.authenticate(from, to, to)
  return Buffer.from(poly1305.memory.subarray(to, to + tagBytes))
}

/** RFC 8439: 2.5.2, and A.3 numbers 7 to 11, which overflow the modulus and its limbs. */
const vectors: readonly (readonly [key: string, message: string, tag: string])[] = [
  [
    '85d6be7857556d337f4452fe42d506a8 0103808afb0db2fd4abff6af4149f51b',
    Buffer.from('Cryptographic Forum Research Group').toString('hex'),
    'a8061dc1305136c6c22b8baf0c0127a9',
  ],
  [`02${'00'.repeat(31)}`, 'ff'.repeat(16), `03${'00'.repeat(15)}`],
  [`02${'00'.repeat(15)}${'ff'.repeat(16)}`, `02${'00'.repeat(15)}`, `03${'00'.repeat(15)}`],
  [
    `01${'00'.repeat(31)}`,
    `${'ff'.repeat(16)}f0${'ff'.repeat(15)}11${'00'.repeat(15)}`,
    `05${'00'.repeat(15)}`,
  ],
  [
    `01${'00'.repeat(31)}`,
    `${'ff'.repeat(16)}fb${'fe'.repeat(15)}${'01'.repeat(16)}`,
    '00'.repeat(16),
  ],
  [`02${'00'.repeat(31)}`, `fd${'ff'.repeat(15)}`, `fa${'ff'.repeat(15)}`],
]

t.test('the tags of RFC 8439', async (t) => {
  for (const [oneTimeKey, message, tag] of vectors)
    t.equal(tagOf(bytes(oneTimeKey), bytes(message)).toString('hex'), tag)
})

t.test('any message at any position has the tag of the definition', async (t) => {
  let wrong = 0
  for (let round = 0; round < 10_000; round++) {
    const oneTimeKey = round % 5 === 0 ? Buffer.alloc(32, 0xff) : randomBytes(32)
    const message = round % 7 === 0 ? Buffer.alloc(round % 300, 0xff) : randomBytes(round % 600)
    const tag = tagOf(oneTimeKey, message, round % 19)
    if (!tag.equals(definedTag(oneTimeKey, message))) wrong++
  }
  t.equal(wrong, 0)
})
