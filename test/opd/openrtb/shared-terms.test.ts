/** Bids of one response do not influence each other: each is priced and expanded as if it were alone. */
import fc from 'fast-check'
import t from 'tap'
import { createEngine } from '../../../opd/engine/engine.ts'
import { aloneDeps, testEngine } from '../../support/engine.ts'
import { integration } from '../../support/opd-doubles.ts'
import { run } from '../../support/rewrite.ts'

const imps = [
  '{"id":"1","bidfloor":0.5,"tagid":"top","banner":{"w":300,"h":250},"pmp":{"deals":[{"id":"d1","bidfloor":0.9,"at":2},{"id":"d2","at":3}]}}',
  '{"id":"2","bidfloor":0.25,"bidfloorcur":"JPY","video":{"mincpmpersec":0.05}}',
  '{"id":"3","audio":{}}',
].join(',')
const root =
  '"id":"r1","at":1,"site":{"domain":"news.example","publisher":{"id":"p"}},"device":{"devicetype":4}'

const bid = fc.record({
  impid: fc.constantFrom('"1"', '"2"', '"3"', '"4"'),
  dealid: fc.constantFrom('', ',"dealid":"d1"', ',"dealid":"d2"', ',"dealid":"dx"'),
  mtype: fc.constantFrom('', ',"mtype":1', ',"mtype":2'),
  dur: fc.constantFrom('', ',"dur":15', ',"dur":30'),
  size: fc.constantFrom('', ',"w":320,"h":50', ',"w":728,"h":90'),
  adomain: fc.constantFrom('', ',"adomain":["bad.example"]'),
  seat: fc.constantFrom('s1', 's2'),
})

const nurl = '"nurl":"https://t.example/?svc_opd=${SVC_OPD_CONTEXT}"'
const opd = { exclude: { adomains: ['bad.example'] } }

t.test('a bid among others is priced as it is alone', async (t) => {
  fc.assert(
    fc.property(fc.array(bid, { minLength: 2, maxLength: 8 }), (bids) => {
      const seats = bids.map(({ impid, dealid, mtype, dur, size, adomain, seat }, n) => {
        const more = [dealid, mtype, dur, size, adomain].join('')
        return `{"seat":"${seat}","bid":[{"id":"b${n}","impid":${impid},"price":2,${nurl}${more}}]}`
      })
      const answered = (chosen: string[]) =>
        run({ title: '', opd, root, imps, raw: `{"seatbid":[${chosen.join(',')}]}` })
      const together = answered(seats)
      const alone = seats.map((seat) => answered([seat]))
      t.strictSame(
        together.priced,
        alone.flatMap(({ priced }) => priced),
      )
      t.strictSame(
        together.reasons,
        alone.flatMap(({ reasons }) => reasons),
      )
    }),
  )
})

t.test('the members of a bid may come in any order', async (t) => {
  const url = (name: string) =>
    `"${name}":"https://t.example/${name}?svc_opd=\${SVC_OPD_CONTEXT}&in=\${SVC_OPD_IN_BID_PRICE}&x=\${SVC_OPD_X}&out=\${SVC_OPD_OUT_BID_PRICE}"`
  const members = ['"id":"b1"', '"price":2', url('adm'), url('nurl'), url('burl'), url('lurl')]
  const rest = '"impid":"1"'
  fc.assert(
    fc.property(fc.shuffledSubarray(members, { minLength: members.length }), (order) => {
      const imp = `{${[...order, rest].join(',')}}`
      const { out, came } = run({ title: '', raw: `{"seatbid":[{"bid":[${imp},${imp}]}]}` })
      const body = out.body.toString()
      t.equal(body.split('${SVC_OPD_').length, 9, 'the unknown macro alone is left, in each field')
      t.equal(out.reason, null)
      const before = JSON.parse(came.toString()).seatbid[0].bid[0]
      for (const after of JSON.parse(body).seatbid[0].bid) {
        t.same(Object.keys(after), Object.keys(before))
        t.equal(after.price, 1.5)
        for (const name of ['adm', 'nurl', 'burl', 'lurl'])
          t.match(
            after[name],
            new RegExp(`^https://t.example/${name}\\?svc_opd=[^$]+&in=[^$]+&x=\\$`),
          )
      }
    }),
  )
})

t.test('the dsp of one standalone bid is not that of the next', async (t) => {
  const { config, learner, now } = testEngine({ integrations: [integration('acme', {})] })
  const asked: (string | undefined)[] = []
  const engine = createEngine(config, {
    learners: {
      learnerOf: () => ({
        ...learner,
        decide: (facts, ...rest) => {
          asked.push(facts.dsp)
          return learner.decide(facts, ...rest)
        },
      }),
      version: () => 1,
      epoch: () => 0,
    },
    bidLog: { put: () => null, find: () => [] },
    ...aloneDeps,
    now,
  })
  const bid = (id: string, more = '') => `{"id":"${id}","impid":"1","price":2${more}}`
  const bids = [bid('a', ',"dsp_id":"d-1"'), bid('b'), bid('c', ',"dsp_id":"d-2"')]
  const call = `{"imp":[{"id":"1"}],"seatbid":[{"bid":[${bids.join(',')}]}]}`
  const result = engine.priceStandalone('acme', Buffer.from(call))
  t.ok(result.ok)
  if (result.ok) t.equal([...result.entries].length, 3)
  t.strictSame(asked, ['d-1', undefined, 'd-2'])
})
