/** Reports on stored rows, the same on SQLite and PostgreSQL. */
import { bearer } from '../../../admin/auth/bearer.ts'
import { createAdmin } from '../../../admin/http/server.ts'
import { reporting } from '../../../admin/reports/route.ts'
import { createRollup } from '../../../admin/store/rollup.ts'
import type { LedgerRow } from '../../../admin/store/tables.ts'
import type { DecisionRecord } from '../../../opd/types.ts'
import { decided, observe } from '../../support/decision-record.ts'
import { entry, unplaced } from '../../support/ledger-entry.ts'
import { onBoth, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const now = 1_790_000_000_000
const facets = {
  ...{ country: 'DEU', device: 'phone', format: 'video', size: '640x480', deal: '=deal' },
}
const record = (
  n: number,
  arm: DecisionRecord['arm'],
  publisher: string,
  supplier = 'acme',
): DecisionRecord =>
  decided({
    id: `d${n}`,
    bidId: `b${n}`,
    supplier,
    arm,
    decidedAt: now - 1000,
    publisher,
    domain: '=cmd()',
    seat: n % 4 === 0 ? 's1' : n % 4 === 1 ? 's2' : undefined,
    facets: n % 4 === 0 && n < 40 ? facets : undefined,
  })
const win = (n: number, arm: string, publisher: string, over: Partial<LedgerRow> = {}): LedgerRow =>
  entry(`d${n}`, {
    ...{ arm, publisher, domain: '=cmd()', seat: [`s1`, 's2'][n % 4] ?? null },
    ...(n % 4 === 0 && n < 30 ? facets : {}),
    ...{ in_ba: '2', cleared: '1.8', margin: '0.2', at: now - 500 },
    ...over,
  })

onBoth(async (t, database) => {
  const store = await storeAt(t, database, { now: () => now })
  const rollup = createRollup(store, silent)
  const admin = createAdmin({
    listen: '127.0.0.1:0',
    log: silent,
    plugins: [
      reporting({
        store,
        suppliers: () => [
          { id: 'acme', account: 'a' },
          { id: 'zeta', account: 'z' },
        ],
        authenticate: () =>
          bearer({
            verify: (token) => ({
              subject: token,
              account: token === 'root' ? '*' : token,
              roles: new Set(['api']),
            }),
          }),
        now: () => now,
        flush: (facets) => (facets ? rollup.flushFacets() : rollup.flush()),
        rules: () => ({ notices: {}, rates: { USD: 1 }, base: 'USD' }),
      }),
    ],
  })
  const { port } = await admin.listen()
  t.teardown(async () => {
    await admin.close()
    await rollup.close()
  })
  const get = (path: string, who = 'a') =>
    fetch(`http://127.0.0.1:${port}/api/svc/reports/${path}`, {
      headers: { authorization: `Bearer ${who}` },
    })
  const decide = (decided: DecisionRecord) =>
    observe(rollup.bids, decided, Number(decided.inBa), Number(decided.outBa))
  for (let n = 0; n < 40; n++)
    decide(record(n, n < 30 ? 'treated' : 'holdout', n % 2 === 0 ? 'p1' : 'p2'))
  await rollup.flush()
  decide(record(40, 'treated', 'p1', 'zeta'))
  await Promise.all([
    ...[0, 1, 2, 3, 4, 5].map((n) =>
      store.ledger.record(win(n, 'treated', n % 2 === 0 ? 'p1' : 'p2')),
    ),
    store.ledger.record(win(30, 'holdout', 'p1', { margin: '0', cleared: '2' })),
    store.ledger.record(
      win(31, 'holdout', 'p2', { late: 1, over: 1, margin: '-0.1', cleared: '2.1' }),
    ),
    store.ledger.record(unplaced('bid:x', { at: now - 500 })),
  ])

  const [margin] = (await (await get('margin')).json()) as Record<string, unknown>[]
  t.match(margin, {
    key: 'acme',
    decided: 40,
    wins: 8,
    revenue: '0.016',
    cleared: '0.0149',
    margin: '0.0011',
    currency: 'USD',
  })
  t.ok((margin!['uplift'] as number) > 0)
  const [wins] = (await (await get('wins?ssp=acme')).json()) as Record<string, number>[]
  t.equal(wins!['kept'], 1, '6 of 30 against 2 of 10')
  t.ok(wins!['kept_low']! < 1 && wins!['kept_high']! > 1)
  const by = (await (await get('discrepancy?by=publisher')).json()) as Record<string, unknown>[]
  t.match(by, [
    { key: 'p1', decided: 20, wins: 4, late: 0 },
    { key: 'p2', decided: 20, wins: 4, late: 1, over: 1 },
  ])
  const all = (await (await get('discrepancy', 'root')).json()) as Record<string, unknown>[]
  t.match(all, [{ key: '', unattributed: 1 }, { key: 'acme' }, { key: 'zeta', decided: 1 }])
  await store.ledger.record(win(60, 'treated', 'p', { supplier: 'gone' }))
  const still = (await (await get('margin', 'root')).json()) as Record<string, unknown>[]
  t.match(still[2], { key: 'gone', wins: 1, margin: '0.0002' }, 'the file names it no longer')
  t.equal((await get('margin?ssp=gone', 'root')).status, 404)
  t.equal(((await (await get('margin')).json()) as []).length, 1, 'who sees one sees one')
  const hours = (await (await get('wins?by=hour')).json()) as Record<string, unknown>[]
  t.equal(hours.length, 1)
  t.match(hours[0]!['key'], /^2026-\d\d-\d\dT\d\d:00:00.000Z$/)
  t.same(await (await get('wins?from=0&to=1000')).json(), [])
  const csv = await (await get('margin?by=domain&format=csv')).text()
  t.match(csv, /^domain,decided,wins,revenue/, 'the key has the name of its grouping')
  t.match(csv, /\r\n'=cmd\(\),40,8,/, 'a formula is marked as text')
  await store.ledger.record(win(32, 'treated', 'p3', { margin: '-0.5', cleared: '2.5' }))
  const negative = await (await get('margin?by=publisher&format=csv')).text()
  t.match(negative, /\r\np3,0,1,0.002,0.0025,-0.0005,/, 'an amount is not')
  for (const [range, days] of [
    ['from=2026-09-20&to=2026-09-22', '2026-09-20-to-2026-09-21'],
    ['from=2026-09-20&to=2026-09-21', '2026-09-20'],
    ['from=2026-09-20&to=2026-09-21&tz=Asia/Tokyo', '2026-09-20'],
  ] as const) {
    const file = await get(`margin?by=supplier,day&format=csv&${range}`)
    t.equal(
      file.headers.get('content-disposition'),
      `attachment; filename="bidweir-margin-${days}.csv"`,
    )
    t.match(await file.text(), /^supplier,day,decided,wins,revenue/)
  }
  const rowsOf = async (query: string) =>
    (await (await get(query)).json()) as Record<string, unknown>[]
  t.match(await rowsOf('discrepancy?by=domain,publisher'), [
    { key: '=cmd()', key2: 'p1', decided: 20, wins: 4 },
    { key: '=cmd()', key2: 'p2', decided: 20, wins: 4 },
    { key: '=cmd()', key2: 'p3', decided: 0, wins: 1 },
  ])
  t.match(await rowsOf('wins?by=supplier,day&publisher=p2'), [
    { key: 'acme', key2: /T00:00:00.000Z$/, decided: 20, wins: 4 },
  ])
  t.same(await rowsOf('wins?domain=elsewhere'), [])
  t.same(await rowsOf('wins?domain=%3DCMD()'), await rowsOf('wins?domain=%3Dcmd()'), 'any case')
  const seats = (await rowsOf('discrepancy?ssp=acme&by=seat')).map(({ key, decided, wins }) => [
    ...[key, decided, wins],
  ])
  t.same(seats, [
    ['', 20, 4],
    ['s1', 10, 3],
    ['s2', 10, 2],
  ])
  t.match(await rowsOf('margin?ssp=acme&by=seat,publisher&seat=s1'), [
    { key: 's1', key2: 'p1', decided: 10, wins: 2 },
    { key: 's1', key2: 'p3', decided: 0, wins: 1 },
  ])
  t.match(await rowsOf('wins?ssp=acme&by=publisher&seat='), [
    { key: 'p1', decided: 10 },
    { key: 'p2', decided: 10 },
  ])
  t.match(await (await get('wins?by=day,seat&format=csv')).text(), /Z,s2,10,2,/)
  t.match(
    (await rowsOf('margin?by=publisher&top=2')).map(({ key }) => key),
    ['p1', 'p2'],
    'the largest margin first',
  )
  t.match(await rowsOf('discrepancy?ssp=acme&by=country'), [
    { key: '', decided: 30, wins: 7 },
    { key: 'DEU', decided: 10, wins: 2 },
  ])
  t.match(await rowsOf('discrepancy?ssp=acme&by=format,hour&ad_format=video'), [
    { key: 'video', decided: 10, wins: 2 },
  ])
  t.match(await rowsOf('wins?by=supplier&size=640x480'), [{ key: 'acme', decided: 10, wins: 2 }])
  t.match(await (await get('wins?by=day,deal&format=csv')).text(), /Z,'=deal,10,2,/)
  for (const [query, detail] of [
    [
      'by=country,device',
      /^country and device cannot be combined: of country, device, format, size/,
    ],
    ['by=country&size=1x1', /^country and size cannot/],
    ['by=deal,publisher', /^deal and publisher cannot/],
    ['by=hour&seat=s1&ad_format=video', /^format and seat cannot/],
  ] as const) {
    const refused = await get(`wins?${query}`)
    t.equal(refused.status, 400, query)
    const { errors } = (await refused.json()) as { errors: object[] }
    t.match(errors, [{ pointer: 'by', detail }])
  }
  const zone = 'America/St_Johns'
  const [inZone] = await rowsOf(`wins?by=day&tz=${zone}`)
  t.match(inZone!['key'], /T00:00:00-02:30$/)
  const start = Date.parse(String(inZone!['key']))
  t.ok(start <= now && now - start < 86_400_000, 'the day there that contains the bids')
  const [row] = await rowsOf(`wins?tz=${zone}&from=${String(inZone!['key']).slice(0, 10)}`)
  t.equal(row!['wins'], inZone!['wins'], 'a date begins at midnight there')
  for (const wrong of ['by=ssp,ssp', 'by=day,hour,ssp', 'tz=Mars/Base', 'top=0', 'top=x'])
    t.equal((await get(`wins?${wrong}`)).status, 400, wrong)
  const many = await Promise.all(Array.from({ length: 40 }, () => get('wins')))
  const codes = many.map(({ status }) => status)
  t.ok(codes.includes(200) && codes.every((code) => code === 200 || code === 503))
  t.equal((await get('wins')).status, 200)
  t.equal((await get('wins?ssp=zeta')).status, 404)
  t.equal((await get('nothing')).status, 404)
  const bad = await get('wins?by=moon&from=x&what=1')
  t.equal(bad.status, 400)
  const { errors } = (await bad.json()) as { errors: { pointer: string; detail: string }[] }
  t.same(errors.map(({ pointer }) => pointer).sort(), ['by', 'from', 'what'])
  const ofBy = errors.find(({ pointer }) => pointer === 'by')
  t.match(ofBy, { detail: /^by must be one or two of supplier \(or ssp\), seat, / })
  for (const wrong of ['from=5&to=4', 'to=99999999999999999999'])
    t.equal((await get(`wins?${wrong}`)).status, 400, wrong)
  if (database.stop === undefined) return
  await database.stop()
  const lost = await get('wins')
  t.equal(lost.status, 503)
  t.equal(lost.headers.get('retry-after'), '1')
  await database.start?.()
  await until(async () => (await get('wins')).status === 200)
})
