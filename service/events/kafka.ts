/** The event log in Kafka. Loaded only if it is configured. */
import { ProduceAcks, Producer, stringSerializers } from '@platformatic/kafka'
import type { KafkaConfig } from './config.ts'
import type { EventLog } from './stream.ts'

/** Milliseconds. */
const connectTimeout = 3000
const timeout = 5000

/** exactOptionalPropertyTypes: an absent option is left out. */
const given = <T extends object>(options: T) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }

export function openKafka({ brokers, topic, tls, sasl }: KafkaConfig): EventLog {
  const producer = new Producer({
    clientId: 'bidweir',
    bootstrapBrokers: brokers,
    serializers: stringSerializers,
    acks: ProduceAcks.ALL,
    // The stream tries again by itself, so that a batch that fails is seen.
    retries: false,
    autocreateTopics: true,
    connectTimeout,
    requestTimeout: timeout,
    timeout,
    ...(tls === null ? {} : { tls: given(tls) }),
    ...(sasl === null ? {} : { sasl }),
  })
  return {
    async send(messages) {
      await producer.send({ messages: messages.map((message) => ({ topic, ...message })) })
    },
    close: () => producer.close(),
  }
}
