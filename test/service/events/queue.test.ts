/** The queue of the event stream is bounded: while the log is away, decisions that do not fit are dropped and counted. */
import t from 'tap'
import { EventStream } from '../../../service/events/stream.ts'
import { decided } from '../../support/decision-record.ts'
import { silent } from '../../support/store.ts'
import { until } from '../../support/until.ts'

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
  const stream = new EventStream(target, { log: silent, now: () => 1 })
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
