import fc from 'fast-check'
import t from 'tap'
import { readRequest } from '../../../opd/openrtb/request.ts'
import { findTmax } from '../../../opd/openrtb/tmax.ts'
import { mutated, parses, respelled } from '../../support/json-bytes.ts'

const runs = { numRuns: 1500 }

t.test('tmax is the one of the top level', async (t) => {
  const values = fc.oneof(
    fc.integer({ min: -5, max: 500 }),
    fc.constantFrom(1.5, '120', null, true, [9], { tmax: 9 }),
  )
  const requests = fc.dictionary(
    fc.constantFrom('a', 'tmax', 'imp', 'ext', '"tmax":7', 'tmax"', '\\'),
    fc.oneof(
      values,
      fc.array(values),
      fc.dictionary(fc.constantFrom('tmax', 'b'), values),
      fc.constantFrom('tmax', '"tmax":3', '{'),
      // 64 bytes are read at a time: whatever is read begins and ends anywhere in them.
      fc.nat({ max: 70 }).map((length) => 'x'.repeat(length)),
      fc.nat({ max: 70 }).map((length) => '\\'.repeat(length)),
      fc.nat({ max: 70 }).map((length) => Array(length).fill([{}])),
    ),
  )
  fc.assert(
    fc.property(requests, fc.integer(), (request, seed) => {
      const tmax = request['tmax']
      const wanted =
        typeof tmax === 'number' && Number.isInteger(tmax) && tmax > 0 ? tmax : undefined
      const body = Buffer.from(respelled(request, seed))
      return findTmax(body) === wanted && findTmax(body.toString('latin1')) === wanted
    }),
    runs,
  )
  t.equal(findTmax(Buffer.from('{"tmax":1,"tmax":2}')), undefined, 'twice')
  t.equal(findTmax(Buffer.from('{"tm\\u0061x":12}')), 12)
  t.equal(findTmax(Buffer.from('{"tmax":1e2}')), 100)
  t.equal(findTmax(Buffer.from(`{"tmax":${' '.repeat(61)}1200}`)), 1200, 'far behind its key')
  t.equal(findTmax(Buffer.from(`{"tmax"${'\n'.repeat(90)}: 1200}`)), 1200)
  for (const pairs of [31, 32, 33, 200])
    t.equal(findTmax(`{"a":["${'x","'.repeat(pairs)}"],"tmax":7}`), 7, `behind ${pairs} pairs`)
  for (let length = 0; length < 140; length++) {
    t.equal(findTmax(`{"a":"${'y'.repeat(length)}","tmax":120}`), 120, `behind ${length} letters`)
    t.equal(
      findTmax(`{"a":{"b":"${'y'.repeat(length)}","tmax":120}}`),
      undefined,
      'of the second level',
    )
    t.equal(findTmax(`{"tmax":120,"a":"${'y'.repeat(length)}","tmax":120}`), undefined, 'twice')
    t.equal(findTmax(`{"a":"${'\\'.repeat(2 * length)}","tmax":120}`), 120, 'behind backslashes')
    t.equal(findTmax(`{"a":"${'\\'.repeat(2 * length + 1)}","tmax":120}`), undefined, 'in a string')
  }
  // The text before was longer.
  t.equal(findTmax('{"tmax":12'), undefined)
  t.equal(findTmax('{"tmax":123456789}'), 123456789)
  t.equal(findTmax('{"tmax":12345678901}'), 12345678901)
  t.equal(findTmax(`{"tmax":1${'0'.repeat(20)}}`), undefined, 'not a safe integer')
  for (const number of ['5.0', '50e-1', '0.5e1']) t.equal(findTmax(`{"tmax":${number}}`), 5, number)
  for (const number of ['0', '-5', '05', '5+', '"5"'])
    t.equal(findTmax(`{"tmax":${number}}`), undefined, number)
  const reach = 64 * 1024
  const insertAt = (before: number) => {
    const start = `{"x":"${'y'.repeat(before - 15)}","tmax":`
    return findTmax(Buffer.from(`${start}1200}${' '.repeat(reach)}`))
  }
  t.equal(insertAt(reach - 10), 1200, 'within the first 64 KiB')
  t.equal(insertAt(reach - 2), undefined, 'a number that is cut there')
  t.equal(insertAt(reach + 9), undefined, 'behind them')
  for (const text of [
    '',
    '"tmax"',
    '"tmax":5',
    '{"tmax"',
    '{"tmax":',
    '{"a":"tmax":5}',
    '[{"tmax":5}]',
  ])
    t.equal(findTmax(Buffer.from(text)), undefined, text)
})

t.test('requests of any bytes are read or refused, never thrown at', async (t) => {
  fc.assert(
    fc.property(mutated, (body) => {
      const isObject = parses(body) && /^\s*\{/.test(body.toString())
      return (readRequest(body) !== null) === isObject
    }),
    runs,
  )
  t.pass()
})
