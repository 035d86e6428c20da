/** A chunked body, whatever its chunks and the reads that it comes in. */
import t from 'tap'
import { ChunkedReader } from '../../../proxy/wire/chunked.ts'

/** Reads `text` in pieces of `step` bytes; null: malformed. */
function read(text: string, step = text.length) {
  const reader = new ChunkedReader()
  let body = ''
  let calls = 0
  const pieces = {
    bodyBytes(bytes: Buffer, from: number, to: number) {
      calls++
      body += bytes.toString('latin1', from, to)
    },
  }
  for (let start = 0; start < text.length; start += step) {
    const part = Buffer.from(text.slice(start, start + step), 'latin1')
    const end = reader.read(part, 0, pieces)
    if (end < 0 || reader.tooLarge) return null
    if (reader.done)
      return { body, calls, behind: part.length - end + text.length - start - part.length }
  }
  return { body, calls, behind: -1 }
}

t.test(
  'chunks of one read are one piece: a buffer a byte would take a hundred times its size',
  (t) => {
    const letters = Array.from({ length: 5000 }, (_, index) =>
      String.fromCharCode(97 + (index % 26)),
    )
    const text = `${letters.map((letter) => `1\r\n${letter}\r\n`).join('')}0\r\n\r\n`
    t.same(read(text), { body: letters.join(''), calls: 1, behind: 0 })
    for (const step of [1, 2, 3, 7, 64, 4096])
      t.equal(read(text, step)!.body, letters.join(''), `in reads of ${step}`)
    t.end()
  },
)

t.test('sizes with leading zeros, and chunks of every size, are read', (t) => {
  t.same(read('0000000000005\r\nhello\r\n00\r\n\r\n'), { body: 'hello', calls: 1, behind: 0 })
  const sizes = [1, 15, 16, 17, 255, 4096, 3]
  const text = `${sizes.map((size) => `${size.toString(16)};x="y"\r\n${'z'.repeat(size)}\r\n`).join('')}0\r\n\r\n`
  const body = 'z'.repeat(sizes.reduce((sum, size) => sum + size))
  for (const step of [1, 5, 100, text.length]) t.equal(read(text, step)!.body, body)
  t.equal(read('5\r\nhello\r\n0\r\nX: 1\r\n\r\nmore')!.behind, 4, 'what comes behind is not its')
  t.end()
})

t.test('a malformed chunked body is refused', (t) => {
  const bad = [
    '-5\r\nhello',
    '0x5\r\nhello',
    '\r\nhello',
    '5\nhello',
    'FFFFFFFFF\r\nx',
    '2\r\nokay\r\n',
  ]
  for (const text of bad) t.equal(read(text), null, JSON.stringify(text))
  t.end()
})
