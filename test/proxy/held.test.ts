/** A body as it comes, and what it takes of the node's budget. */
import t from 'tap'
import { BodyBuffer } from '../../proxy/exchange/body-buffer.ts'

/** Pieces that tell where they belong, of these lengths. */
function piecesOf(lengths: readonly number[]): Buffer[] {
  let next = 0
  return lengths.map((length) => Buffer.from(Array.from({ length }, () => next++ % 251)))
}

const bodies: Record<string, number[]> = {
  'no piece': [],
  'one piece': [3000],
  'a few small pieces': [1, 2, 3],
  'a byte a piece': Array(50_000).fill(1),
  'small and large in turns': Array.from({ length: 200 }, (_, at) =>
    at % 7 === 3 ? 5000 : at % 5,
  ),
  'pieces that just fill a block': Array(64).fill(1024),
}

for (const [name, lengths] of Object.entries(bodies))
  t.test(`${name} come out as they went in, and count once`, (t) => {
    const budget = { inFlight: 0, bytes: 0 }
    const pieces = piecesOf(lengths)
    const whole = Buffer.concat(pieces)
    for (const read of ['whole', 'chunks'] as const) {
      const held = new BodyBuffer(budget)
      for (const piece of pieces) held.add(piece)
      t.equal(held.length, whole.length)
      t.equal(budget.bytes, whole.length)
      const out = read === 'whole' ? held.whole() : Buffer.concat(held.chunks())
      t.ok(out.equals(whole), read)
      t.equal(held.length, 0)
      held.add(Buffer.from('more'))
      t.equal(held.whole().toString(), 'more', 'what comes afterwards is apart')
      held.release()
      t.equal(budget.bytes, 0)
    }
    t.end()
  })

t.test('a body in pieces of a byte is held in few buffers', (t) => {
  const held = new BodyBuffer({ inFlight: 0, bytes: 0 })
  for (const piece of piecesOf(bodies['a byte a piece']!)) held.add(piece)
  t.ok(held.chunks().length < 30)
  t.end()
})
