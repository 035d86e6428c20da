/** Figures by minute: what was counted, gaps, nodes, marks, ranges, accounts, and rows that are too old or too many. */
import { sql } from 'kysely'
import t from 'tap'
import { type Minutes as MinutesAnswer, readMinutes } from '../../../admin/fleet/minutes.ts'
import { minuteSumAt, minuteSums } from '../../../admin/store/minute-sums.ts'
import { deleteMinutes, Minutes } from '../../../admin/store/minutes.ts'
import { postgresAbsent, startPostgres } from '../../support/postgres.ts'
import { newFolder, token } from '../../support/process.ts'
import { serveNode } from '../../support/served-node.ts'
import { echoSupplier } from '../../support/service-node.ts'
import { onBoth, recordingLog, silent, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'

const minute = 60_000
const hour = 60 * minute

/** Sums in which only these are not 0. */
const sumsOf = (counts: Partial<Record<(typeof minuteSums)[number], number>>) => {
  const sums = new Float64Array(minuteSums.length)
  for (const [name, count] of Object.entries(counts))
    sums[minuteSumAt[name as keyof typeof minuteSumAt]] = count
  return sums
}
const sum = (values: (number | null)[]) =>
  values.reduce<number>((all, value) => all + (value ?? 0), 0)

onBoth(async (t, database) => {
  const store = await storeAt(t, database)
  const rows = async () =>
    (
      await sql<{ supplier: string; minute: number; bids: number; margin: number }>`
        select supplier, minute, bids, margin from minutes order by minute, supplier`.execute(
        store.db,
      )
    ).rows.map((row) => ({ ...row, minute: Number(row.minute), bids: Number(row.bids) }))
  const begin = 1000 * hour

  t.test('nodes add to the same rows', async (t) => {
    const [one, other] = [new Minutes(store, silent), new Minutes(store, silent)]
    one.addSums('acme', begin + 5, sumsOf({ bids: 2, margin: -0.25 }))
    one.addSums('acme', begin + 59_999, sumsOf({ bids: 1 }))
    other.addSums('acme', begin + 30_000, sumsOf({ bids: 4, margin: 1.5 }))
    other.addSums('acme', begin + minute, sumsOf({ bids: 8 }))
    await Promise.all([one.flush(), other.flush()])
    await one.flush()
    t.same(await rows(), [
      { supplier: 'acme', minute: begin, bids: 7, margin: 1.25 },
      { supplier: 'acme', minute: begin + minute, bids: 8, margin: 0 },
    ])
  })

  t.test('minutes that cannot be written wait for the store', async (t) => {
    const { warnings, log } = recordingLog()
    const minutes = new Minutes(store, log)
    minutes.addSums('late', begin, sumsOf({ bids: 1 }))
    await sql`alter table minutes rename to away`.execute(store.db)
    await minutes.flush()
    t.match(warnings, [/will be retried/])
    await sql`alter table away rename to minutes`.execute(store.db)
    minutes.addSums('late', begin, sumsOf({ bids: 2 }))
    await minutes.flush()
    t.match(
      (await rows()).filter(({ supplier }) => supplier === 'late'),
      [{ bids: 3 }],
    )
  })

  t.test('minutes are kept for two days, and up to a number of rows', async (t) => {
    const now = begin + 48 * hour
    t.equal(await deleteMinutes(store.db, now), true)
    t.equal(await deleteMinutes(store.db, now), false)
    t.same(
      (await rows()).map((row) => row.minute),
      [begin + minute],
      'no younger one',
    )
    const minutes = new Minutes(store, silent)
    for (let n = 0; n < 12; n++)
      minutes.addSums(`s${n % 3}`, now - (n >> 2) * minute, sumsOf({ bids: 1 }))
    await minutes.flush()
    const kept = async () => new Set((await rows()).map((row) => row.minute))
    await deleteMinutes(store.db, now, 4)
    t.ok((await rows()).length <= 4)
    t.same(await kept(), new Set([now]), 'the newest minutes, whole')
  })

  t.test('each kind of change has its mark, at its time', async (t) => {
    const from = 2000 * hour
    const minutes = new Minutes(store, silent)
    minutes.addSums('', from, sumsOf({ starts: 1 }))
    minutes.addSums('', from + minute, sumsOf({ reloads: 1 }))
    minutes.addSums('', from + 2 * minute, sumsOf({ refits: 2 }))
    await minutes.flush()
    const opd = (enabled: boolean | 'shadow', share = 1) =>
      JSON.stringify({ opd: { enabled, share } })
    const changes: [action: string, supplier: string, before: string, after: string][] = [
      ['supplier_update', 'acme', opd('shadow'), opd(true, 0.05)],
      ['supplier_update', 'acme', opd(true, 0.05), opd(true)],
      ['supplier_update', 'acme', '{"timeout":"1s"}', '{"timeout":"2s"}'],
      ['supplier_revert', 'acme', opd(true), opd('shadow')],
      ['update', 'acme', '{}', '{}'],
      ['hold', '*', 'false', 'true'],
      ['freeze', '', 'false', 'true'],
      ['rollback', '', 'null', 'null'],
      ['user_add', '', 'null', '{}'],
      ['hold', 'other', 'false', 'true'],
    ]
    const entry = { who: 'ann', account: '*', request_id: 'r' }
    for (const [n, [action, supplier, before, after]] of changes.entries())
      await store.db
        .insertInto('audit')
        .values({ ...entry, at: from + (3 + n) * minute, supplier, action, before, after })
        .execute()
    const bytes = await readMinutes(store, {
      ...{ suppliers: ['acme'], only: 'acme', from, to: from + hour, step: minute },
      ...{ now: from + hour, currency: 'USD' },
    })
    const { marks } = JSON.parse(Buffer.from(bytes).toString()) as MinutesAnswer
    t.strictSame(
      marks.map((mark) => [(mark.at - from) / minute, mark.kind, mark.text]),
      [
        [0, 'start', 'a node started'],
        [1, 'reload', 'the configuration was read again'],
        [2, 'refit', 'the model was fitted again'],
        [3, 'change', 'OPD in shadow → on for 5 %'],
        [4, 'change', 'OPD on for 5 % → on'],
        [5, 'change', 'the supplier was changed'],
        [6, 'change', 'OPD on → in shadow'],
        [7, 'change', 'seats or data centers were changed'],
        [8, 'hold', 'hold of all suppliers on'],
        [9, 'model', 'the models were frozen'],
        [10, 'model', 'a model was rolled back'],
      ],
    )
  })
})

t.test('the API', { skip: postgresAbsent }, async (t) => {
  const [database, supplier] = [await startPostgres(), await echoSupplier()]
  const secret = Buffer.alloc(32, 5).toString('base64url')
  const options = {
    suppliers: [
      'id: acme, name: Acme, account: a, opd: {enabled: true, holdout: .5}',
      'id: idle, name: Idle, account: b',
    ],
    endpoint: supplier.url,
    more: `store: {database: "${database.url}"}\nopd: {keys: [{id: 1, secret: ${secret}}]}`,
    folder: newFolder(),
  }
  const one = await serveNode(options)
  const other = await serveNode({ ...options, folder: newFolder() })
  other.login = one.login
  t.teardown(async () => {
    await one.bidweir.stop()
    await Promise.all([supplier.close(), database.close()])
  })
  const access = await one.login()
  const call = (path: string, method = 'GET', body?: unknown, bearer = access, node = one) =>
    fetch(`${node.admin}${path}`, {
      method,
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const read = async (query = '', node = one, bearer = access) =>
    (await (
      await call(`/api/svc/minutes/?${query}`, 'GET', undefined, bearer, node)
    ).json()) as MinutesAnswer
  const texts = ({ marks }: MinutesAnswer) => marks.map(({ text }) => text)

  for (let index = 0; index < 8; index++) {
    const node = index < 3 ? one : other
    const { id, svcOpd, out } = await node.bid({ id: `b${index}`, price: 2 })
    await (index < 3 ? other : one).notify({ bid_id: id, price: out, svc_opd: svcOpd })
  }
  t.equal((await call('/api/svc/opd/acme/', 'PUT', { hold: true })).status, 200)

  t.test('sums of all nodes, the same at each of them', async (t) => {
    for (const node of [one, other]) {
      await until(async () => sum((await read('ssp=acme', node)).values.wins) === 8)
      const { values, currency, step } = await read('ssp=acme', node)
      t.same([sum(values.requests), sum(values.bids), currency, step], [8, 8, 'USD', 1])
      t.ok(values.p99.some((value) => value !== null && value > 0))
      t.ok(sum(values.revenue) > 0.015 && sum(values.revenue) <= 0.016, 'in units, not CPM')
      t.ok(values.factor.some((value) => value !== null && value > 0.3 && value <= 1))
      t.ok(
        values.kept_wins.every((value) => value === null),
        'too few wins',
      )
    }
    t.equal(sum((await read('')).values.bids), 8, 'of all suppliers')
  })

  t.test('a minute without requests is 0, one without a node is a gap', async (t) => {
    const { values, from, now } = await read('ssp=idle')
    t.same([...new Set(values.requests)], [null, 0])
    t.equal(values.requests.at(-1), 0)
    t.equal(values.failed.at(-1), null, 'a share of nothing is not known')
    const begun = Math.ceil((now + 1 - from) / minute)
    t.ok([begun - 1, begun].includes(values.requests.length))
  })

  t.test('what was changed is marked, without names of people', async (t) => {
    const answer = await read('ssp=acme')
    t.match(texts(answer), /./)
    t.ok(texts(answer).includes('hold on'))
    t.ok(texts(answer).includes('a node started'))
    t.notMatch(JSON.stringify(answer), 'admin')
    t.notOk(texts(await read('ssp=idle')).includes('hold on'), 'not that of another supplier')
    t.ok(texts(await read('')).includes('acme: hold on'))
  })

  t.test('an account sees its own suppliers', async (t) => {
    const user = { name: 'b', password: 'secret-1', roles: ['viewer'], account: 'b' }
    t.equal((await call('/api/svc/users/', 'POST', user)).status, 201)
    const bearer = (await token(one.bidweir, 'b', 'secret-1'))!
    t.equal(sum((await read('', one, bearer)).values.requests), 0)
    t.notOk(texts(await read('', one, bearer)).some((text) => text.includes('acme')))
    t.equal((await call('/api/svc/minutes/?ssp=acme', 'GET', undefined, bearer)).status, 404)
  })

  t.test('ranges', async (t) => {
    const to = Date.now()
    const { values, from, step } = await read(`from=${to - 48 * hour}&to=${to}&step=60`)
    t.same([from % hour, step], [0, 60])
    t.ok([48, 49].includes(values.bids.length))
    t.equal(sum(values.bids), 8)
    for (const query of [
      `from=${to - 49 * hour}&to=${to}`,
      'step=0',
      'step=61',
      'from=never',
      `from=${to}&to=${to - 1}`,
      'more=1',
    ])
      t.equal((await call(`/api/svc/minutes/?${query}`)).status, 400, query)
  })

  t.test('a restart keeps them, with its mark', async (t) => {
    await other.bidweir.stop()
    const again = await serveNode({ ...options, folder: newFolder() })
    t.teardown(() => again.bidweir.stop())
    again.login = one.login
    await until(async () => {
      const { marks } = await read('ssp=acme', again)
      return marks.filter(({ kind }) => kind === 'start').length > 0
    })
    t.equal(sum((await read('ssp=acme', again)).values.bids), 8)
  })
})
