/** The buffer of a body, and the bytes that it counts in the node's memory budget. */
import t from 'tap'
import { BodyBuffer } from '../../../proxy/exchange/body-buffer.ts'

/** Chunks of these lengths, with bytes that show their order. */
function chunksOf(lengths: readonly number[]): Buffer[] {
  let next = 0
  return lengths.map((length) => Buffer.from(Array.from({ length }, () => next++ % 251)))
}

const bodies: Record<string, number[]> = {
  'no chunk': [],
  'one chunk': [3000],
  'a few small chunks': [1, 2, 3],
  'chunks of one byte': Array(50_000).fill(1),
  'small and large chunks alternately': Array.from({ length: 200 }, (_, index) =>
    index % 7 === 3 ? 5000 : index % 5,
  ),
  'chunks that exactly fill a block': Array(64).fill(1024),
}

for (const [name, lengths] of Object.entries(bodies))
  t.test(`${name}: read as added, and counted once`, (t) => {
    const budget = { inFlight: 0, bytes: 0, kept: 0 }
    const chunks = chunksOf(lengths)
    const bytes = Buffer.concat(chunks)
    for (const read of ['whole', 'chunks'] as const) {
      const buffer = new BodyBuffer(budget)
      for (const chunk of chunks) buffer.addChunk(chunk)
      t.equal(buffer.length, bytes.length)
      t.equal(budget.bytes, bytes.length)
      const out = read === 'whole' ? buffer.wholeBody() : Buffer.concat(buffer.chunks())
      t.ok(out.equals(bytes), read)
      t.equal(buffer.length, 0)
      buffer.addChunk(Buffer.from('more'))
      t.equal(buffer.wholeBody().toString(), 'more', 'bytes added later are read separately')
      buffer.release()
      t.equal(budget.bytes, 0)
    }
    t.end()
  })

t.test('a body in chunks of one byte takes few Buffers', (t) => {
  const buffer = new BodyBuffer({ inFlight: 0, bytes: 0, kept: 0 })
  for (const chunk of chunksOf(bodies['chunks of one byte']!)) buffer.addChunk(chunk)
  t.ok(buffer.chunks().length < 30)
  t.end()
})
