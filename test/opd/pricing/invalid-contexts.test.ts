/** Contexts that are not valid: forged, of another bid or key, absent, expired. */
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { createContextCodec, Nonces } from '../../../opd/pricing/context.ts'
import { decided } from '../../support/decision-record.ts'

const hour = 3_600_000
const time = 1_800_000_000_000
const key = (id: number) => ({ id, secret: randomBytes(32) })
const nonces = new Nonces()
const codec = createContextCodec([key(1)], 48 * hour, nonces)
const record = () => decided({ id: codec.nextId(), bidId: 'bid-1', decidedAt: time })

t.test('every changed bit, every cut and every addition is invalid', async (t) => {
  const mine = record()
  const { text } = codec.encode(mine)
  const bytes = Buffer.from(text, 'base64url')
  let valid = 0
  for (let bit = 0; bit < bytes.length * 8; bit++) {
    const forged = Buffer.from(bytes)
    forged[bit >> 3]! ^= 1 << (bit & 7)
    if (codec.decode(forged.toString('base64url'), 'bid-1', time).state !== 'invalid') valid++
  }
  for (let length = 1; length < text.length; length++)
    if (codec.decode(text.slice(0, length), 'bid-1', time).state !== 'invalid') valid++
  for (const added of ['A', '=', ' ', '\n', '.', '+', text])
    if (codec.decode(text + added, 'bid-1', time).state !== 'invalid') valid++
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
  for (const letter of alphabet)
    if (
      letter !== text.at(-1) &&
      codec.decode(text.slice(0, -1) + letter, 'bid-1', time).state !== 'invalid'
    )
      valid++
  t.equal(valid, 0)
})

t.test('a foreign key, another bid and garbage are invalid and never thrown', async (t) => {
  const { text } = codec.encode(record())
  t.equal(codec.decode(text, 'bid-2', time).state, 'invalid')
  t.equal(createContextCodec([key(1)], hour, nonces).decode(text, 'bid-1', time).state, 'invalid')
  t.equal(createContextCodec([key(2)], hour, nonces).decode(text, 'bid-1', time).state, 'invalid')
  t.equal(createContextCodec([], hour, nonces).decode(text, 'bid-1', time).state, 'invalid')
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 700 }), (garbage) => {
      const { state } = codec.decode(garbage, 'bid-1', time)
      if (state !== 'invalid' && state !== 'unexpanded') throw new Error(state)
    }),
  )
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 400 }), (bytes) => {
      const forged = Buffer.concat([Buffer.from([1, 1]), bytes]).toString('base64url')
      if (codec.decode(forged, 'bid-1', time).state !== 'invalid') throw new Error(forged)
    }),
  )
})

t.test(
  'contexts that are absent, unexpanded, expired or from the future have their state',
  async (t) => {
    t.equal(codec.decode(undefined, 'bid-1', time).state, 'absent')
    t.equal(codec.decode('', 'bid-1', time).state, 'absent')
    t.equal(codec.decode('${SVC_OPD_CONTEXT}', 'bid-1', time).state, 'unexpanded')
    const { text } = codec.encode(record())
    t.equal(codec.decode(text, 'bid-1', time + 48 * hour).state, 'valid')
    t.equal(codec.decode(text, 'bid-1', time + 48 * hour + 1).state, 'expired')
    t.equal(codec.decode(text, 'bid-1', time - 5 * 60_000).state, 'valid')
    t.equal(codec.decode(text, 'bid-1', time - 5 * 60_000 - 1).state, 'invalid')
  },
)

t.test('a key rotation loses no context', async (t) => {
  const [old, fresh] = [key(1), key(2)]
  const steps = [[old], [old, fresh], [fresh, old]].map((ring) =>
    createContextCodec(ring, hour, nonces),
  )
  for (const [index, writer] of steps.entries()) {
    const { text } = writer.encode(record())
    for (const reader of steps.slice(Math.max(1, index)))
      t.equal(reader.decode(text, 'bid-1', time).state, 'valid')
  }
})
