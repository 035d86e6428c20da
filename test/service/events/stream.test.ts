/**
 * The event stream while the log is away, and at its end: its queue is bounded, decisions that do not fit are dropped and
 * counted; a connection that was never made is no failure, any other failure is logged.
 */
import t from 'tap'
import { openKafka } from '../../../service/events/kafka.ts'
import { type EventLog, EventStream } from '../../../service/events/stream.ts'
import { decided } from '../../support/decision-record.ts'
import { freePort } from '../../support/postgres.ts'
import { silent } from '../../support/store.ts'
import { until } from '../../support/until.ts'

async function closed(target: EventLog): Promise<object[]> {
  const lines: object[] = []
  const write = (fields: object, message: string) => void lines.push({ ...fields, message })
  const log = { info: write, warn: write, error: write }
  await new EventStream(target, log).close()
  return lines
}

t.test('a producer that never connected is closed without a word', async (t) => {
  const brokers = [`127.0.0.1:${await freePort()}`]
  const kafka = () => openKafka({ brokers, topic: 'bidweir', tls: null, sasl: null })
  t.same(await closed(kafka()), [])
  const refused = kafka()
  await t.rejects(refused.send([{ key: 'k', value: 'v' }]))
  t.same(await closed(refused), [])
})

t.test('a failure of the close is logged, and the rest is closed', async (t) => {
  const lines = await closed({
    send: async () => {},
    close: () => Promise.reject(new Error('broken')),
  })
  t.same(lines, [{ err: 'broken', message: 'the event log was not closed' }])
})

/** A log that is away for the first `failures` batches, and a stream with a decision that waits for it. */
async function afterFailure(failures: number) {
  const sent: string[] = []
  const target = {
    async send(messages: { key: string }[]) {
      if (failures-- > 0) throw new Error('away')
      sent.push(...messages.map(({ key }) => key))
    },
    async close() {},
  }
  const stream = new EventStream(target, silent)
  stream.decided(decided({ id: 'd0', bidId: 'b0' }))
  await stream.flush()
  await stream.close()
  return { sent, counts: stream.counts }
}

t.test('what waits after a failure is tried once more at the end', async (t) => {
  const { sent, counts } = await afterFailure(1)
  t.same(sent, ['d0'])
  t.equal(counts.dropped, 0)
})

t.test('a decision that cannot be sent at the end is counted as dropped', async (t) => {
  const { sent, counts } = await afterFailure(Infinity)
  t.same(sent, [])
  t.equal(counts.dropped, 1)
})

t.test('decisions beyond the queue are dropped and counted', async (t) => {
  let away = true
  const keys = new Set<string>()
  const target = {
    async send(messages: { key: string }[]) {
      if (away) throw new Error('away')
      for (const { key } of messages) keys.add(key)
    },
    async close() {},
  }
  const stream = new EventStream(target, silent)
  t.teardown(() => stream.close())
  const bid = (n: number) => stream.decided(decided({ id: `d${n}`, bidId: `b${n}` }))
  bid(0)
  await stream.flush()
  t.equal(stream.counts.failed, 1)
  for (let n = 1; n < 20_100; n++) bid(n)
  t.equal(stream.waiting, 20_000)
  t.equal(stream.counts.dropped, 100)
  away = false
  await until(() => stream.waiting === 0)
  t.equal(keys.size, 20_000, 'what waits is sent when the log is back')
})
