/** Long lists of the API: parsed in time slices, and read as JSON.parse reads them. */
import type { FastifyRequest } from 'fastify'
import t from 'tap'
import { jsonOf, longListOf } from '../../../admin/http/json-body.ts'
import { Problem } from '../../../admin/http/problem.ts'

const request = (text: string | Buffer) => ({ body: Buffer.from(text as string) }) as FastifyRequest
const long = (text: string | Buffer, entries = 10_000) => longListOf(request(text), entries)

const problemOf = async (work: () => unknown): Promise<Problem> => {
  try {
    await work()
  } catch (error) {
    if (error instanceof Problem) return error
    throw error
  }
  throw new Error('no problem')
}

const bodies = [
  '[]',
  '{}',
  'null',
  '3',
  '"text"',
  '[{}]',
  '[{}, {}, 1, null, "a", [{}], {"a": [{"b": {}}]}]',
  ' { "suppliers" : [ {"id": "a", "x": "}{][,:\\"\\\\"} , {"id":"b"} ] } ',
  '{"suppliers": [{"a": 1}], "more": [{"b": 2}, {}]}',
  '{"a": {"b": [{"c": 1}]}, "d": [[{"e": 1}], {"f": {"g": [{}]}}]}',
  '[[{"a": 1}], [{"b": 1}]]',
]

for (const text of bodies)
  t.test(`${text} is what JSON.parse says`, async (t) => {
    t.same(await long(text), JSON.parse(text))
  })

for (const text of [
  '',
  '[',
  '[{]',
  '[{}',
  '[{"a":}]',
  '[{"a":1}{"b":2}]',
  '[{"a":1},]',
  '}{',
  '[}',
  '{"a":[{]}}',
  '[{"a":1}]]',
  '[{} {}]',
  '[{"a": 01}]',
])
  t.test(`${text || 'nothing'} is refused as a short body is`, async (t) => {
    const found = await problemOf(() => long(text))
    const expected = await problemOf(() => jsonOf(request(text)))
    t.equal(found.code, expected.code)
    t.match(found.faults, [{ detail: /the body is not JSON/ }])
  })

t.test('repeated keys, too many entries and other encodings are refused', async (t) => {
  t.match((await problemOf(() => long('[{"a": 1, "a": 2}]'))).faults, [
    { pointer: '/0/a', detail: 'this key is repeated' },
  ])
  t.match((await problemOf(() => long('[1,2,3]', 2))).faults, [{ detail: /more than 2 entries/ }])
  t.match((await problemOf(() => long(Buffer.of(0xff)))).faults, [{ detail: /not UTF-8/ }])
})

t.test('the event loop runs while eight mebibytes are parsed', async (t) => {
  const list = Array.from({ length: 9000 }, (_, n) => ({
    ...{ id: `s${n}`, endpoints: [`https://${'x'.repeat(700)}.example/${n}`] },
    opd: { enabled: true, exclude: { seats: ['a', 'b'] } },
  }))
  const text = JSON.stringify({ suppliers: list })
  t.ok(text.length > 7_000_000)
  const before = { turns: 0, parsing: true }
  const count = () => {
    before.turns++
    if (before.parsing) setImmediate(count)
  }
  setImmediate(count)
  t.same(await long(text), { suppliers: list })
  before.parsing = false
  t.ok(before.turns > 400, `${before.turns} turns: one for each 16 KiB`)
})
