/** Reports over what was really stored, the same on SQLite and PostgreSQL. */
import { bearer } from '../../../admin/auth/bearer.ts'
import { createAdmin } from '../../../admin/http/server.ts'
import type { LedgerEntry } from '../../../admin/ports.ts'
import { reporting } from '../../../admin/reports/route.ts'
import { createRollup } from '../../../admin/store/rollup.ts'
import type { DecisionRecord } from '../../../opd/engine/types.ts'
import { entry, unplaced } from '../../support/ledger-entry.ts'
import { decided, onBoth, silent, storeAt } from '../../support/store.ts'

const now = 1_790_000_000_000
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
    at: now - 1000,
    publisher,
    domain: '=cmd()',
  })
const win = (
  n: number,
  arm: string,
  publisher: string,
  over: Partial<LedgerEntry> = {},
): LedgerEntry =>
  entry(`d${n}`, {
    ...{ arm, publisher, domain: '=cmd()' },
    ...{ inBa: '2', cleared: '1.8', margin: '0.2', at: now - 500 },
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
        flush: () => rollup.flush(),
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
    rollup.decided(decided, Number(decided.inBa), Number(decided.outBa))
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
      win(31, 'holdout', 'p2', { late: true, over: true, margin: '-0.1', cleared: '2.1' }),
    ),
    store.ledger.record(unplaced('bid:x', { at: now - 500 })),
  ])

  const [margin] = (await (await get('margin')).json()) as Record<string, unknown>[]
  t.match(margin, {
    key: 'acme',
    decided: 40,
    wins: 8,
    revenue: '16',
    cleared: '14.9',
    margin: '1.1',
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
  t.match(still[2], { key: 'gone', wins: 1, margin: '0.2' }, 'the file names it no longer')
  t.equal((await get('margin?ssp=gone', 'root')).status, 404)
  t.equal(((await (await get('margin')).json()) as []).length, 1, 'who sees one sees one')
  const hours = (await (await get('wins?by=hour')).json()) as Record<string, unknown>[]
  t.equal(hours.length, 1)
  t.match(hours[0]!['key'], /^2026-\d\d-\d\dT\d\d:00:00.000Z$/)
  t.same(await (await get('wins?from=0&to=1000')).json(), [])
  const csv = await (await get('margin?by=domain&format=csv')).text()
  t.match(csv, /^key,decided,wins,revenue/)
  t.match(csv, /\r\n'=cmd\(\),40,8,/, 'a formula is told to be text')
  await store.ledger.record(win(32, 'treated', 'p3', { margin: '-0.5', cleared: '2.5' }))
  const negative = await (await get('margin?by=publisher&format=csv')).text()
  t.match(negative, /\r\np3,0,1,2,2.5,-0.5,/, 'an amount is none')
  const many = await Promise.all(Array.from({ length: 40 }, () => get('wins')))
  const codes = many.map(({ status }) => status)
  t.ok(codes.includes(200) && codes.every((code) => code === 200 || code === 503))
  t.equal((await get('wins')).status, 200)
  t.equal((await get('wins?ssp=zeta')).status, 404)
  t.equal((await get('nothing')).status, 404)
  const bad = await get('wins?by=moon&from=x&what=1')
  t.equal(bad.status, 400)
  t.same(
    ((await bad.json()) as { errors: { pointer: string }[] }).errors
      .map(({ pointer }) => pointer)
      .sort(),
    ['by', 'from', 'what'],
  )
  for (const wrong of ['from=5&to=4', 'to=99999999999999999999'])
    t.equal((await get(`wins?${wrong}`)).status, 400, wrong)
  if (database.stop === undefined) return
  await database.stop()
  const lost = await get('wins')
  t.equal(lost.status, 503)
  t.equal(lost.headers.get('retry-after'), '1')
  await database.start?.()
  while ((await get('wins')).status !== 200) await new Promise((resolve) => setTimeout(resolve, 50))
})
