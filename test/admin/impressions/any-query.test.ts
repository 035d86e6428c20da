/** Any query of a notice gets a well-formed response, and the counters add up. */
import fc from 'fast-check'
import t from 'tap'
import { auction } from '../../support/engine.ts'
import { impressionsApi } from '../../support/impressions-api.ts'
import { integration } from '../../support/opd-doubles.ts'

const oddities = [
  ...['%00', '%ff', '%zz', '%', '+', '%2B', '%26', '&', '=', '$', '${', '%24%7B', '}', '%C3%A9'],
  ...[
    '%ED%A0%80',
    '.',
    '-',
    '1',
    '9'.repeat(70),
    'AUDIT',
    'e',
    '%0d%0a',
    ';',
    '/',
    '?',
    "'",
    '%22',
  ],
  ...['bid_id', 'price', '__proto__', '[]', '%u0041', '\\', '~', ',', '0', '00', '1.50'],
]
const junk = fc
  .array(fc.constantFrom(...oddities), { maxLength: 4 })
  .map((parts: string[]) => parts.join(''))
const ids = ['b1', 'a+b/c==', 'é💸', 'Y%3D', '${x', '%24%7B', ' ', '&x=1', '\0']

t.test('any query is answered with 200, 400, 401 or 422', async (t) => {
  const { engine, send, tally, counters, ledger } = await impressionsApi(t, {
    auth: 'context',
    integrations: [integration('acme'), integration('balanced', { mode: 'margin' }, 'both')],
  })
  const bids = ids.flatMap((id) =>
    ['acme', 'balanced'].map((supplier) => ({ id, ...auction(engine, { id, supplier }) })),
  )
  const contexts = bids.map(({ svcOpd }) => svcOpd)
  const values: Record<string, fc.Arbitrary<string>> = {
    bid_id: fc.oneof(fc.constantFrom(...ids.map(encodeURIComponent)), junk),
    price: fc.oneof(fc.constantFrom('1', '0.90', '0', '10', 'AUDIT'), junk),
    svc_opd: fc.oneof(fc.constantFrom(...contexts, contexts[0]!.slice(1)), junk),
    ssp: fc.oneof(fc.constantFrom('acme', 'balanced', 'nobody'), junk),
    event: fc.oneof(fc.constantFrom('win', 'billing'), junk),
    price_dsp: fc.oneof(fc.constantFrom('1.25', 'AUDIT'), junk),
  }
  const parameter = fc
    .constantFrom(...Object.keys(values))
    .chain((name: string) => values[name]!.map((value: string) => `${name}=${value}`))
  const query = fc
    .tuple(
      values['bid_id']!.map((id: string) => `bid_id=${id}`),
      values['price']!.map((price: string) => `price=${price}`),
      fc.array(fc.oneof(parameter, junk), { maxLength: 4 }),
    )
    .chain(([id, price, more]: [string, string, string[]]) =>
      fc.oneof(
        fc.constant([id, price, ...more]),
        fc
          .constantFrom(...bids)
          .map((bid) => [
            `bid_id=${encodeURIComponent(bid.id)}`,
            'price=0.9',
            `svc_opd=${bid.svcOpd}`,
          ]),
      ),
    )
    .chain((parts) => fc.shuffledSubarray([...parts], { minLength: parts.length }))
    .map((parts: string[]) => parts.join('&'))
  let sent = 0
  await fc.assert(
    fc.asyncProperty(query, fc.constantFrom('good', 'media', 'x', null), async (text, token) => {
      const answer = await send(text, token)
      sent++
      const body = (await answer.json()) as { status: unknown; errors?: { pointer: string }[] }
      if (![200, 400, 401, 422].includes(answer.status))
        throw new Error(`${answer.status}: ${text}`)
      if (answer.headers.get('cache-control') !== 'no-store') throw new Error(`stored: ${text}`)
      if (answer.status === 400 && !body.errors?.length) throw new Error(`unnamed fault: ${text}`)
      const counted = Object.values(tally()).reduce((sum, count) => sum + count, 0)
      if (counted !== sent || counters.received !== sent) throw new Error(`${counted} of ${sent}`)
    }),
    { numRuns: 1500 },
  )
  const rows = (status: string) => ledger.rows.filter((row) => row.status === status).length
  const { attributed = 0, unattributed = 0 } = tally()
  t.same([rows('attributed'), rows('unattributed') + ledger.replaced], [attributed, unattributed])
  t.ok(attributed > 5 && unattributed > 5, `${attributed} attributed, ${unattributed} not`)
})
