/** The event stream in a real Kafka, and the margin report of a real ClickHouse that reads it. */
import { readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { eventSchema, type StreamEvent } from '../../../service/events/event.ts'
import { certificate } from '../../support/certificate.ts'
import { clickhouseAbsent, queryClickhouse, statementsOf } from '../../support/clickhouse.ts'
import { type Kafka, kafkaAbsent, readTopic, startKafka } from '../../support/kafka.ts'
import { newFolder } from '../../support/process.ts'
import { type ServedNode, serveNode } from '../../support/served-node.ts'
import { type Answered, echoSupplier, startNode } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'
import { secureTransport } from './secure.ts'

const example = (name: string) =>
  readFileSync(new URL(`../../../examples/clickhouse/${name}`, import.meta.url), 'utf8')

async function optionsOn(t: Test, broker: string, topic: string, folder = newFolder()) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())
  return {
    endpoint: supplier.url,
    folder,
    auth: 'none' as const,
    more: `events: {kafka: {brokers: ["${broker}"], topic: ${topic}}}`,
    suppliers: [
      'id: acme, opd: {enabled: true, holdout: 0.4, explore: 0}',
      'id: both, notices: both, opd: {enabled: true, holdout: 0}',
      'id: euro, notices: billing, opd: {enabled: true, holdout: 0}',
    ],
  }
}

const win = (node: ServedNode, { id, svcOpd }: Answered, price: string, more = {}) =>
  node.notify({ bid_id: id, svc_opd: svcOpd, price, ...more })

/** The value of a metric without labels, or of one series. */
async function metric(node: ServedNode, series: string): Promise<number> {
  const text = await (await fetch(`${node.admin}/metrics`)).text()
  const line = text.split('\n').find((line) => line.startsWith(`${series} `))
  return Number(line?.split(' ')[1] ?? Number.NaN)
}

const eventsIn = (messages: readonly { key: string; value: string }[]) =>
  messages.map(({ key, value }) => ({ key, event: eventSchema.parse(JSON.parse(value)) }))

type Win = Extract<StreamEvent, { type: 'win' }>
const isWin = (event: StreamEvent): event is Win => event.type === 'win'

/** Bids of three suppliers, wins of two thirds, repeats, a void and a loss. */
async function play(node: ServedNode) {
  const bids: { ssp: string; bid: Answered }[] = []
  for (let n = 0; n < 60; n++) {
    const ssp = ['acme', 'acme', 'both', 'euro'][n % 4]!
    const site = { domain: `d${n % 3}.example`, publisher: { id: `p${n % 2}` } }
    const bid = await node.bid({
      id: `b${n}`,
      ssp,
      price: 1 + n / 7,
      auction: `a${n}`,
      request: { site },
      ...(ssp === 'euro' ? { cur: 'EUR' } : {}),
    })
    bids.push({ ssp, bid })
  }
  for (const [n, { ssp, bid }] of bids.entries()) {
    if (n % 3 === 2) continue
    const price = (Number(bid.out) * 0.9).toFixed(6)
    if (ssp !== 'euro') await win(node, bid, price)
    if (ssp !== 'acme') await win(node, bid, price, { event: 'billing' })
    if (n % 5 === 0) await win(node, bid, price)
  }
  return bids
}

async function decisionOf(node: ServedNode, { id, svcOpd }: Answered): Promise<string> {
  const answer = await node.api(`/api/svc/decisions/${svcOpd}?bid_id=${id}`)
  return ((await answer.json()) as { id: string }).id
}

t.test('events', { skip: kafkaAbsent }, async (t) => {
  const tls = certificate('localhost')
  const user = tls && { ...tls, username: 'bidweir', password: 'open-sesame' }
  const kafka: Kafka = await startKafka(user)
  t.teardown(() => kafka.close())

  await t.test('decisions, wins and losses are events, and make the margin report', async (t) => {
    const topic = 'complete'
    const node = await serveNode(await optionsOn(t, kafka.broker, topic))
    t.teardown(() => node.stop())
    const bids = await play(node)
    const voided = await decisionOf(node, bids[0]!.bid)
    const answer = await node.api(`/api/svc/impressions/${voided}/void/`, { method: 'POST' })
    t.equal(answer.status, 200)
    const lost = bids[2]!.bid
    const loss = `bid_id=${lost.id}&svc_opd=${lost.svcOpd}&loss=102&min_to_win=1.75`
    t.equal((await fetch(`${node.admin}/opd/loss?${loss}`)).status, 200)

    const expected = { decision: 60, win: 60, loss: 1 }
    const sent = () =>
      Promise.all(
        (['decision', 'win', 'loss'] as const).map(
          async (type) =>
            (await metric(node, `bidweir_events_sent_total{type="${type}"}`)) >=
            expected[type] - 10,
        ),
      )
    await until(async () => (await sent()).every(Boolean), { what: 'events that were sent' })
    await until(async () => (await metric(node, 'bidweir_events_waiting')) === 0)
    const reader = await readTopic(kafka.broker, topic)
    t.teardown(() => reader.close())
    const total = async () =>
      (await metric(node, 'bidweir_events_sent_total{type="decision"}')) +
      (await metric(node, 'bidweir_events_sent_total{type="win"}')) +
      (await metric(node, 'bidweir_events_sent_total{type="loss"}'))
    await until(async () => reader.messages.length >= (await total()), { what: 'all events' })
    const read = eventsIn(reader.messages)
    t.ok(read.every(({ key, event }) => key === event.decision))
    t.equal(
      new Set(read.filter(({ event }) => event.type === 'decision').map((e) => e.key)).size,
      60,
    )
    const ofVoided = read.map(({ event }) => event).filter((e) => e.decision === voided)
    t.strictSame(
      ofVoided.filter(isWin).map(({ status, version }) => [status, version]),
      [
        ['attributed', 1],
        ['voided', 2],
      ],
    )
    t.match(
      read.find(({ event }) => event.type === 'loss')?.event,
      { ssp: 'both', reason: '102', min_to_win: '1.75' },
      'a loss says why',
    )

    t.test('ClickHouse reproduces the margin report', { skip: clickhouseAbsent }, async (t) => {
      const to = Date.now() + 1
      const from = to - 86_400_000
      const insert = `INSERT INTO bidweir.events FORMAT JSONEachRow ${reader.messages
        .map(({ value }) => JSON.stringify({ event: value }))
        .join('\n')}`
      const groups = ['ssp', 'publisher', 'domain', 'hour', 'day']
      const answers = queryClickhouse([
        ...statementsOf(example('schema.sql')).map((text) => [text] as const),
        // An event may come twice, and the older one last.
        [insert],
        [insert],
        ...groups.map(
          (by) => [example('margin.sql'), { by, from, to, base: 'USD' }] as [string, object],
        ),
      ] as Parameters<typeof queryClickhouse>[0])
      for (const [index, by] of groups.entries()) {
        const path = `/api/svc/reports/margin?by=${by}&from=${from}&to=${to}`
        const report = (await (await node.api(path)).json()) as Record<string, unknown>[]
        const rows = answers.at(index - groups.length)!
        t.strictSame(rows.map(exact), report.map(exact), `by ${by}`)
        for (const [n, row] of rows.entries())
          for (const name of ['uplift', 'uplift_low', 'uplift_high'])
            t.ok(isClose(row[name], report[n]![name]), `${name} of ${row['key']}`)
      }
    })
  })

  await t.test('TLS and SASL', { skip: user === null && 'openssl not found' }, (t) =>
    secureTransport(t, kafka, user!),
  )

  await t.test('a log that is away delays no bid, and every win comes later', async (t) => {
    const topic = 'away'
    const options = await optionsOn(t, kafka.broker, topic)
    const first = await startNode(options)
    const before = await first.bid({ id: 'before' })
    t.match(await win(first, before, before.out), { http: 200, body: { status: 'attributed' } })
    await until(async () => (await metric(first, 'bidweir_events_sent_total{type="win"}')) === 1)
    await kafka.disconnect()
    const won: string[] = []
    for (let n = 0; n < 20; n++) {
      const bid = await first.bid({ id: `w${n}`, auction: `w${n}` })
      t.match(await win(first, bid, bid.out), { http: 200, body: { status: 'attributed' } })
      won.push(await decisionOf(first, bid))
    }
    await until(async () => (await metric(first, 'bidweir_events_failures_total')) > 0)
    t.equal((await fetch(`${first.admin}/readyz`)).status, 200)
    await first.bidweir.stop('SIGKILL')
    await kafka.reconnect()
    const second = await serveNode(options)
    t.teardown(() => second.stop())
    const reader = await readTopic(kafka.broker, topic)
    t.teardown(() => reader.close())
    const arrived = () =>
      new Set(
        eventsIn(reader.messages)
          .filter(({ event }) => isWin(event))
          .map(({ key }) => key),
      )
    await until(() => won.every((decision) => arrived().has(decision)), {
      what: 'the wins of a node that was killed',
    })
    await until(async () => (await metric(second, 'bidweir_outcomes_waiting')) === 0)
  })
})

/** What must be equal to the last digit. Trailing zeros of decimals do not count. */
function exact(row: Record<string, unknown>) {
  const plain = (value: unknown) => {
    const text = String(value)
    return text.includes('.') ? text.replace(/\.?0+$/, '') : text
  }
  const [key, decided, wins] = [String(row['key']), Number(row['decided']), Number(row['wins'])]
  const money = ['revenue', 'cleared', 'margin'].map((name) => plain(row[name]))
  const others = (row['no_rate'] ?? noRate(row)) as ReturnType<typeof noRate>
  return {
    ...{ key, decided, wins, money },
    others: Object.entries(others).map(([currency, sums]) => [
      ...[currency, Number(sums.wins), plain(sums.cleared), plain(sums.margin)],
    ]),
  }
}

/** The three columns of ClickHouse in the form of the report. */
function noRate(row: Record<string, unknown>) {
  const [wins, cleared, margin] = ['wins', 'cleared', 'margin'].map(
    (name) => row[`no_rate_${name}`] as Record<string, unknown>,
  )
  return Object.fromEntries(
    Object.keys(wins!).map((currency) => [
      currency,
      { wins: wins![currency], cleared: cleared![currency], margin: margin![currency] },
    ]),
  )
}

function isClose(one: unknown, other: unknown): boolean {
  if (one === null || other === null) return one === other
  return Math.abs(Number(one) - Number(other)) <= 1e-9 * Math.max(1, Math.abs(Number(other)))
}
