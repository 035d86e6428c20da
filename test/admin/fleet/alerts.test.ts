/** Alerts: begun, ended, kept, one round for all nodes, and at a webhook: signed, tried again, once. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { Alerts, conditionsOf } from '../../../admin/fleet/alerts.ts'
import type { AlertsAnswer } from '../../../admin/fleet/alerts-route.ts'
import type { NodeFigures, SupplierFigures } from '../../../admin/fleet/figures.ts'
import type { LiveDeps } from '../../../admin/fleet/live.ts'
import type { LiveState } from '../../../admin/fleet/live-schema.ts'
import type { Webhook } from '../../../admin/http/webhook.ts'
import { alertChanges, deleteAlerts, readUnchecked } from '../../../admin/store/alerts.ts'
import { serveNode } from '../../support/served-node.ts'
import { onBoth, recordingLog, storeAt } from '../../support/store.ts'
import { until } from '../../support/until.ts'
import { webhookReceiver, webhookSecret } from '../../support/webhook.ts'

const minute = 60_000
/** Of attribution. */
const window = 5 * minute

interface Event {
  id: string
  event: string
  alerts: AlertsAnswer['alerts']
}

const figures = (requests: Record<string, number>): SupplierFigures => ({
  ...{ requests, durations: {}, awaited: 0, rate: 0, modes: {}, left: {}, notices: {} },
  funnel: { decided: 0, noMacro: 0, left: 0, notices: {}, cleared: 0, clearedLow: 0 },
  ...{ endpoints: [], qps: null },
})

const opdOn: LiveState = {
  ...{ state: 'on', mode: 'revenue', minFactor: 0.7, holdout: 0.02, share: 1 },
  ...{ minWinRate: 0.97, minSpend: 0.97, explore: 0.005 },
} as LiveState

/** What two nodes see: acme answers `failed` of 100 requests not; the node may have a problem. */
function world(now: () => number) {
  const state = { failed: 0, held: false, awaited: 0, problems: [] as NodeFigures['problems'] }
  const live: LiveDeps = {
    async nodes() {
      const requests = { answer: 100 - state.failed, timeout: state.failed }
      return [
        {
          ...{ node: 'n1', location: 'us-east', version: '1', started: 0, at: now(), window: 300 },
          ...{ problems: state.problems, idle: 0, unplaced: {} },
          suppliers: {
            acme: {
              ...figures(requests),
              awaited: state.awaited,
            },
          },
        },
      ]
    },
    kept: { async read() {}, armsOf: () => null },
    suppliers: () => [{ id: 'acme', name: 'Acme', account: 'a' }],
    holds: () => new Set(state.held ? ['acme'] : []),
    unchecked: () => new Set(),
    ...{ currency: () => 'USD', opd: () => opdOn, inactive: () => [], now },
  }
  return { state, live }
}

onBoth(async (t, database) => {
  let now = Date.parse('2026-05-10T12:00:00Z')
  const store = await storeAt(t, database, { now: () => now })
  const { state, live } = world(() => now)
  const { got, url } = await webhookReceiver<Event>(t)
  const { warnings, log } = recordingLog()
  let webhook: Webhook | null = { url, secret: webhookSecret }
  const nodes = [0, 1].map(
    () =>
      new Alerts({
        changes: async () => alertChanges(store.db, await conditionsOf(live), now, window),
        ...{ store, receiver: () => webhook, now: () => now, log },
      }),
  )
  t.teardown(() => {
    for (const node of nodes) node.close()
  })
  /** One round after another, each by one of the nodes. */
  const rounds = async (minutes: number) => {
    for (let index = 0; index < 2 * minutes; index++) {
      now += minute / 2
      await Promise.all(nodes.map((node) => node.check()))
    }
  }
  const rows = () => store.db.selectFrom('alerts').selectAll().orderBy('id').execute()
  const last = () => got.events.at(-1)?.alerts

  state.failed = 10
  await rounds(0.5)
  state.failed = 0
  await rounds(1)
  t.same(await rows(), [], 'what is over within a minute is no alert')

  state.failed = 10
  await rounds(1)
  t.equal(got.events.length, 0, 'it has not lasted for a minute')
  await rounds(1)
  t.equal(got.events.length, 1, 'by one of the nodes, once')
  t.match(got.events[0], {
    event: 'alerts',
    alerts: [
      {
        ...{ rule: 'failed', level: 'warn', supplier: 'acme', node: null, state: 'open' },
        ...{ text: '10% of the requests sent to the supplier failed', ended: null },
      },
    ],
  })

  state.failed = 50
  await rounds(1)
  t.match(await rows(), [{ rule: 'failed', level: 'bad', text: /^50%/ }], 'it has become worse')
  state.failed = 0
  await rounds(4)
  state.failed = 10
  await rounds(1)
  state.failed = 0
  await rounds(4)
  t.match(await rows(), [{ ended: null }], 'it came back within five minutes')
  got.status = 500
  await rounds(2)
  t.equal(got.events.length, 3, 'the end is sent, and again after half a minute')
  t.match(warnings, [/were not sent/, /were not sent/])
  const [, failed, again] = got.events
  t.equal(failed?.id, again?.id, 'with the same id')
  t.match(await store.db.selectFrom('alert_rounds').selectAll().execute(), [
    { failures: 2, fault: 'the receiver answered 500' },
  ])
  got.status = 200
  await rounds(2)
  t.equal(got.events.length, 4)
  t.match(last(), [{ rule: 'failed', state: 'ended' }])
  t.match(await store.db.selectFrom('alert_rounds').selectAll().execute(), [
    { failures: 0, fault: null },
  ])
  await rounds(3)
  t.equal(got.events.length, 4, 'nothing more to say')

  state.held = true
  state.problems = [{ rule: 'redis', level: 'bad', text: 'Redis does not respond' }]
  await rounds(3)
  t.match(last(), [{ rule: 'redis', supplier: null, node: 'n1', state: 'open' }])
  t.equal(last()?.length, 1, 'a hold is no alert')
  state.problems = []
  webhook = null
  await rounds(7)
  webhook = { url, secret: webhookSecret }
  await rounds(2)
  t.equal(got.events.length, 5, 'what ended while there was no receiver is not sent later')
  t.equal(got.forged, 0)

  state.held = false
  const { n: revision } = await store.db
    .selectFrom('revision')
    .select('n')
    .executeTakeFirstOrThrow()
  state.awaited = 300
  await rounds(3)
  t.match(last(), [{ rule: 'no_notices', state: 'open' }])
  t.same(await readUnchecked(store.db), new Set(), 'notices may be late')
  await rounds(30)
  const acme = new Set(['acme'])
  t.same(await readUnchecked(store.db), acme, 'no price is lowered')
  const win = {
    ...{ day: Math.floor(now / 86_400_000), supplier: 'acme', event: '', mode: 'revenue' },
    ...{ arm: 'treated', currency: '', bids: 0, n: 1, priced: 0, margins: 0, squares: 0 },
    ...{ spends: 0, spend_squares: 0, reduced: 0 },
  }
  await store.db.insertInto('arm_days').values(win).execute()
  await rounds(1)
  t.same(await readUnchecked(store.db), new Set(), 'a win was recorded')
  await store.db.deleteFrom('arm_days').execute()
  await rounds(1)
  t.same(await readUnchecked(store.db), acme)
  state.awaited = 0
  await rounds(1)
  t.same(await readUnchecked(store.db), new Set())
  t.match(
    await store.db.selectFrom('revision').select('n').executeTakeFirst(),
    { n: revision + 4 },
    'all nodes are notified when it begins and when it ends',
  )

  await rounds(6)
  await deleteAlerts(store.db, now + 91 * 24 * 60 * minute)
  t.same(await rows(), [], 'history is kept for 90 days')
})

t.test('the API shows them to those who may see the supplier', async (t) => {
  const { got, url } = await webhookReceiver<Event>(t)
  const node = await serveNode({
    ...{ suppliers: ['id: acme, account: a', 'id: other, account: b'] },
    ...{ endpoint: 'http://127.0.0.1:1', more: '' },
    admin: `alerts: {url: "${url}?key=of-the-receiver", secret: "${webhookSecret}"}`,
  })
  t.teardown(() => node.bidweir.stop())
  const read = async (query = '') => {
    const response = await node.api(`/api/svc/alerts/${query}`)
    t.equal(response.status, 200)
    return (await response.json()) as AlertsAnswer
  }
  t.same(await read(), {
    ...{ alerts: [], next: null },
    receiver: { state: 'good', fault: null, next: null },
  })
  for (const query of ['?state=new', '?limit=0', '?before=x', '?more=1'])
    t.equal((await node.api(`/api/svc/alerts/${query}`)).status, 400, query)
  const test = async () => (await node.api('/api/svc/alerts/test/', { method: 'POST' })).json()
  t.same(await test(), { fault: null })
  t.match(got.events, [{ event: 'alert_test' }])
  got.status = 404
  t.same(await test(), { fault: 'the receiver answered 404' })
  const shown = await (await node.api('/api/svc/configuration/')).text()
  t.notMatch(shown, /of-the-receiver|a secret of|\/hook/)
  await until(async () => (await read('?ssp=acme&state=open')).alerts.length === 0)
})

t.test('a redirection by the receiver is a fault, and is not followed', async (t) => {
  let calls = 0
  const server = createServer((_request, response) => {
    calls++
    response.writeHead(307, { location: '/elsewhere' }).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const store = await storeAt(t, { url: 'sqlite::memory:' })
  const alerts = new Alerts({
    ...{ store, changes: () => alertChanges(store.db, [], Date.now(), window) },
    receiver: () => ({ url: `http://127.0.0.1:${port}/`, secret: webhookSecret }),
    ...{ now: Date.now, log: recordingLog().log },
  })
  t.teardown(() => {
    alerts.close()
    server.close()
  })
  t.equal(await alerts.sendTest(), 'the receiver answered 307')
  t.equal(calls, 1)
})
