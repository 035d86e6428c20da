import fc from 'fast-check'
import t from 'tap'
import { findTmax, readRequest } from '../../../opd/openrtb/request.ts'
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
