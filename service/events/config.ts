/** Configuration of the event stream. */
import * as z from 'zod'
import { hostPort } from '../../opd/base/units.ts'

const tls = z.strictObject({
  ca: z
    .string()
    .optional()
    .describe('Certificates of the authorities that are trusted, PEM. Default: those of Node.js.'),
  cert: z.string().optional().describe('Certificate of this client, PEM.'),
  key: z.string().optional().describe('Private key of the certificate, PEM.'),
})

const sasl = z.strictObject({
  mechanism: z
    .enum(['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'])
    .describe('Mechanism of authentication.'),
  username: z.string().min(1).describe('Name of the user.'),
  password: z.string().min(1).describe('Password of the user.'),
})

const kafka = z.strictObject({
  brokers: z
    .array(hostPort('kafka-1:9092'))
    .min(1)
    .max(100)
    .describe('Brokers that the client connects to first.'),
  topic: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,249}$/, 'letters, digits, dots, _ and -, up to 249')
    .default('bidweir')
    .describe('Topic of all events. Their key is the id of the decision.'),
  tls: tls
    .nullable()
    .default(null)
    .describe('TLS to the brokers; {} trusts the authorities of Node.js. null: plain TCP.'),
  sasl: sasl.nullable().default(null).describe('Authentication at the brokers. null: none.'),
})

export const eventsSchema = z.strictObject({
  kafka: kafka.describe('Kafka, or a server with its protocol such as Redpanda.'),
})

export type KafkaConfig = z.infer<typeof kafka>
