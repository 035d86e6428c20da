/** The block `tracing` of the configuration. */
import * as z from 'zod'

export const tracingSchema = z.strictObject({
  endpoint: z
    .url({ protocol: /^https?$/, error: 'a URL, http or https' })
    .describe(
      'Address of an OpenTelemetry collector, OTLP over HTTP, such as http://collector:4318. Spans are sent to /v1/traces below it.',
    ),
  ratio: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe(
      'Share of requests without a `traceparent` that are traced. Requests with one are traced if their caller traces them, up to 100 a second in each process.',
    ),
  headers: z
    .record(z.string().regex(/^[\w.-]+$/, 'a header name'), z.string())
    .default({})
    .describe('Headers of each export, such as the credential of a vendor.'),
})

export type TracingConfig = z.infer<typeof tracingSchema>
