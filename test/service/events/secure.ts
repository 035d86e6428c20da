/** A part of events.test.ts: the event stream reaches a real Kafka through TLS, with each mechanism of SASL; not with another password or authority. */
import type { Test } from 'tap'
import { certificate } from '../../support/certificate.ts'
import { type Credentials, type Kafka, readTopic } from '../../support/kafka.ts'
import { type ServedNode, serveNode } from '../../support/served-node.ts'
import { echoSupplier, sumOf } from '../../support/service-node.ts'
import { until } from '../../support/until.ts'

const topic = 'secure'

/** `user`: whom the listener with TLS and SASL of `kafka` admits. */
export async function secureTransport(t: Test, kafka: Kafka, user: Credentials) {
  const supplier = await echoSupplier()
  t.teardown(() => supplier.close())

  const nodeWith = (mechanism: string, { password = user.password, ca = user.cert } = {}) =>
    serveNode({
      endpoint: supplier.url,
      more: `events: {kafka: ${JSON.stringify({
        ...{ brokers: [kafka.secure], topic, tls: { ca } },
        sasl: { mechanism, username: user.username, password },
      })}}`,
      suppliers: ['id: acme, opd: {enabled: true, holdout: 0}'],
    })
  const metric = async (node: ServedNode, name: string) => sumOf(await node.metrics(), name)

  for (const mechanism of ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'])
    await t.test(mechanism, async (t) => {
      const node = await nodeWith(mechanism)
      t.teardown(() => node.stop())
      await node.bid({ id: 'b', request: { site: { publisher: { id: mechanism } } } })
      await until(async () => (await metric(node, 'bidweir_events_sent_total')) > 0)
    })

  const refused = {
    'another password': { password: 'another' },
    'another authority': { ca: certificate('localhost')!.cert },
  }
  for (const [what, over] of Object.entries(refused))
    await t.test(what, async (t) => {
      const node = await nodeWith('PLAIN', over)
      t.teardown(() => node.stop())
      await node.bid({ id: what })
      await until(async () => (await metric(node, 'bidweir_events_failures_total')) > 0)
      t.equal(await metric(node, 'bidweir_events_sent_total'), 0)
    })

  const reader = await readTopic(kafka.broker, topic)
  t.teardown(() => reader.close())
  await until(() => reader.messages.length >= 3, { what: 'events of three nodes' })
  const publishers = reader.messages.map(({ value }) => JSON.parse(value).publisher)
  t.same(publishers.sort(), ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'])
}
