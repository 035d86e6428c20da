/** Envelopes of deltas: each delta counts once, in any order, and all nodes agree. */
import * as fc from 'fast-check'
import t from 'tap'
import {
  decodeEnvelope,
  type Envelope,
  encodeEnvelope,
  VersionVector,
} from '../../../opd/state/envelope.ts'
import { learn, modelManagerOf, sumOf } from '../../support/model-sync.ts'

t.test('an envelope comes out as it went in, a damaged one not at all', (t) => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[0-9a-f-]{1,40}$/),
      fc.nat({ max: 2 ** 48 - 1 }),
      fc.integer({ min: 1, max: 2 ** 32 - 1 }),
      fc.uint8Array({ maxLength: 300 }),
      fc.nat(),
      (node, epoch, sequence, delta, time) => {
        const bytes = encodeEnvelope({ node, epoch, sequence, delta })
        t.same(decodeEnvelope(bytes), { node, epoch, sequence, delta: new Uint8Array(delta) })
        const damaged = Buffer.from(bytes)
        damaged[time % damaged.length]! ^= 0x40
        return (
          decodeEnvelope(damaged) === null &&
          decodeEnvelope(bytes.subarray(0, time % bytes.length)) === null
        )
      },
    ),
    { numRuns: 300 },
  )
  t.end()
})

t.test('what was seen is known in any order, within bounds', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('a', 'b'), fc.integer({ min: 1, max: 60 }))),
      (rows) => {
        let seen = new VersionVector()
        const known = new Set<string>()
        for (const [node, sequence] of rows) {
          if (seen.has(node, sequence) !== known.has(`${node} ${sequence}`)) return false
          seen.addSequence(node, sequence)
          known.add(`${node} ${sequence}`)
          if (sequence % 7 === 0) seen = new VersionVector(JSON.parse(JSON.stringify(seen.rows())))
        }
        return [...known].every((name) => seen.has(name[0]!, Number(name.slice(2))))
      },
    ),
  )
  const seen = new VersionVector()
  for (let n = 2; n < 5000; n += 2) seen.addSequence('gaps', n)
  for (let n = 0; n < 5000; n++) seen.addSequence(`node ${n}`, 1)
  const rows = seen.rows()
  t.ok(rows.length <= 2000 && rows.every(([, , beyond]) => beyond.length <= 1000))
  t.end()
})

t.test('merged in any order, repeated and lost: each that arrived counts once', async () => {
  const delivery = fc.record({ pick: fc.nat(), times: fc.integer({ min: 0, max: 3 }) })
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 30 }),
      fc.array(delivery, { maxLength: 60 }),
      async (learned, deliveries) => {
        const nodes = [0, 1, 2].map(() => modelManagerOf(null))
        for (const node of nodes) node.models.publishes = true
        const sent: { learnedBy: number; amount: number; envelope: Envelope }[] = []
        for (const [n, index] of learned.entries()) {
          learn(nodes[index]!, 2 ** n)
          const envelope = nodes[index]!.models.takeDelta('revenue').pop()!
          sent.push({ learnedBy: index, amount: 2 ** n, envelope })
        }
        const receiver = nodes[0]!
        const arrived = new Set<number>()
        for (const { pick, times } of sent.length === 0 ? [] : deliveries) {
          const index = pick % sent.length
          const { learnedBy, envelope } = sent[index]!
          if (learnedBy === 0) continue
          for (let n = 0; n < times; n++) receiver.models.merge('revenue', envelope)
          if (times > 0) arrived.add(index)
        }
        const local = sent.filter(({ learnedBy }) => learnedBy === 0)
        const others = [...arrived].map((index) => sent[index]!)
        return (
          sumOf(receiver) === [...local, ...others].reduce((sum, { amount }) => sum + amount, 0)
        )
      },
    ),
    { numRuns: 200 },
  )
})
