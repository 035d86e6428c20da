/** The keys of a supplier that say how its endpoints are reached, chosen and watched. */
import { Resolver } from 'node:dns'
import * as z from 'zod'
import { areCertificates, isTlsPair } from '../../opd/base/tls-pair.ts'
import { duration } from '../../opd/base/units.ts'
import { mayBeSet } from '../wire/headers.ts'

/**
 * The schema of a URL that the proxy opens itself.
 *
 * @param schemes the allowed ones, without a colon; the port is not 0, and there is no user, password or fragment
 */
export const url = (schemes: string[]) =>
  z.string().refine(
    (text) => {
      if (!URL.canParse(text)) return false
      const { protocol, username, password, hash, port } = new URL(text)
      return schemes.includes(protocol) && `${username}${password}${hash}` === '' && port !== '0'
    },
    `a URL without user or fragment, its port not 0 (${schemes.map((scheme) => `${scheme}//host/path`).join(', ')})`,
  )

export const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'a header name')

/**
 * A field value (RFC 9110 5.5) that is sent as it is. A line break would begin another header, and a character above U+00FF
 * would lose its upper byte on the wire: U+010D would become one.
 */
export const headerValue = z
  .string()
  .regex(
    /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/,
    'a header value: Latin-1 text without control characters, and without a space at its beginning or end',
  )

const sentName = headerName.refine(
  (name) => mayBeSet(name.toLowerCase()),
  'a header that is not part of the connection or the framing of the body',
)

const endpointUrl = url(['http:', 'https:'])

const endpointObject = z.strictObject({
  url: endpointUrl.describe('URL of the endpoint.'),
  weight: z
    .int()
    .min(1)
    .max(256)
    .default(1)
    .describe('Share of the requests, relative to the other endpoints.'),
  zone: z
    .string()
    .min(1)
    .max(128)
    .optional()
    .describe('Zone of the endpoint. A node prefers endpoints of its own, `node.zone`.'),
  priority: z
    .int()
    .min(0)
    .max(15)
    .default(0)
    .describe(
      'The lowest number is used first. The next one is used while less than half of the endpoints of those before it are available.',
    ),
})

export type EndpointConfig = z.infer<typeof endpointObject>

const headersSchema = z
  .strictObject({
    set: z
      .record(sentName, headerValue)
      .default({})
      .describe('Headers and their values. They replace those of the caller.'),
    remove: z
      .array(sentName)
      .max(64)
      .default([])
      .describe('Headers of the caller that the supplier does not get.'),
    secretFrom: z
      .record(sentName, headerValue)
      .default({})
      .describe(
        'Headers whose values are secrets, each a reference: `{file: path}` or `${NAME}`. They replace those of the caller, and are never shown or logged.',
      ),
  })
  .superRefine(({ set, secretFrom }, context) => {
    const seen = new Set<string>()
    for (const [key, names] of Object.entries({ set, secretFrom }))
      for (const name of Object.keys(names)) {
        if (seen.has(name.toLowerCase()))
          context.addIssue({
            ...{ code: 'custom', path: [key, name] },
            message: 'a header that is set once',
          })
        seen.add(name.toLowerCase())
      }
  })

const pinText = z
  .string()
  .regex(/^sha256\/\/[A-Za-z0-9+/]{43}=$/, 'sha256// and the SHA-256 of the public key in Base64')

const tlsSchema = z
  .strictObject({
    ca: z
      .string()
      .refine(areCertificates, 'certificates in PEM')
      .optional()
      .describe(
        'Authorities that certificates of the endpoints are verified with, PEM. Default: those of Node.js.',
      ),
    cert: z
      .string()
      .refine(areCertificates, 'certificates in PEM')
      .optional()
      .describe('Client certificate and its chain, PEM.'),
    key: z.string().optional().describe('Private key of the client certificate, PEM.'),
    servername: z
      .string()
      .regex(/^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?$/, 'a host name')
      .optional()
      .describe(
        'Name that is sent to the endpoints, and that their certificates must have. Default: the host of the endpoint.',
      ),
    minVersion: z
      .enum(['TLSv1.2', 'TLSv1.3'])
      .default('TLSv1.2')
      .describe('Lowest version of TLS.'),
    pin: z
      .union([pinText, z.array(pinText).max(8)])
      .default([])
      .transform((pin) => (typeof pin === 'string' ? [pin] : pin))
      .describe(
        'Public keys of which the certificate of an endpoint must have one: `sha256//` and the SHA-256 in Base64, as for `curl --pinnedpubkey`. The certificate is verified as well. Empty: any.',
      ),
  })
  .superRefine(({ cert, key }, context) => {
    const fault = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message })
    if (cert === undefined && key !== undefined) fault('cert', 'the certificate of tls.key')
    if (cert !== undefined && key === undefined) fault('key', 'the private key of tls.cert')
    if (cert !== undefined && key !== undefined && !isTlsPair({ cert, key }))
      fault('key', 'the private key of tls.cert, both in PEM')
  })

/** Whether the resolver takes it. */
function isServer(text: string): boolean {
  try {
    new Resolver().setServers([text])
    return true
  } catch {
    return false
  }
}

const orOff = (limit: z.ZodNumber) => z.union([z.literal('off'), limit]).default('off')
const ejectionTime = (fallback: string) =>
  duration(fallback).refine((ms) => ms >= 1, 'a duration of at least 1ms')

const outliersSchema = z.strictObject({
  consecutive: z
    .int()
    .min(1)
    .max(1000)
    .default(5)
    .describe('Failures in a row after which an endpoint is ejected.'),
  errorShare: orOff(z.number().gt(0).lt(1)).describe(
    'Share of failures, within 10 seconds, above which an endpoint is ejected: time-outs, broken connections and statuses of 500 and more. off: not measured.',
  ),
  minRequests: z
    .int()
    .min(1)
    .default(100)
    .describe('Requests within the 10 seconds from which a share counts.'),
  latencyShare: orOff(z.number().gt(0).lt(1)).describe(
    'Share of `timeout` that the mean response time within 10 seconds must not exceed; an endpoint above it is ejected. off: not measured.',
  ),
  baseEjection: ejectionTime('1s').describe(
    'How long an endpoint is ejected, doubled each time until a request succeeds.',
  ),
  maxEjection: ejectionTime('60s').describe('The longest ejection.'),
  maxEjectedShare: z
    .number()
    .min(0)
    .max(1)
    .default(0.5)
    .describe(
      'Share of the endpoints of the supplier that may be ejected at once, rounded up. The last endpoint that is available is never ejected.',
    ),
})

export type OutlierConfig = z.infer<typeof outliersSchema>

const statusRange = z.union([
  z.int().min(100).max(599),
  z.string().regex(/^[1-5]\d\d-[1-5]\d\d$/, 'a status, or a range such as 200-299'),
])

const healthCheckSchema = z.strictObject({
  path: z
    .string()
    .regex(/^\/[\x21-\x7e]*$/, 'a path that begins with /')
    .optional()
    .describe('Path and query of the request. Default: those of the endpoint.'),
  method: z
    .enum(['GET', 'POST', 'OPTIONS'])
    .optional()
    .describe('Method of the request. Default: POST with a body, GET without.'),
  body: z
    .union([z.string().max(65_536), z.record(z.string(), z.unknown())])
    .optional()
    .describe(
      'Body of the request, text or JSON, such as a bid request with `test: 1`. It is sent as application/json.',
    ),
  interval: duration('5s')
    .refine((ms) => ms >= 500, 'a duration of at least 500ms')
    .describe('Time between two checks of an endpoint by this node, ±10 %.'),
  timeout: duration('2s')
    .refine((ms) => ms >= 1, 'a duration of at least 1ms')
    .describe('Longest time of a check, the connection included.'),
  healthyAfter: z
    .int()
    .min(1)
    .max(100)
    .default(2)
    .describe('Successful checks in a row after which an endpoint gets requests again.'),
  unhealthyAfter: z
    .int()
    .min(1)
    .max(100)
    .default(3)
    .describe('Failed checks in a row after which an endpoint gets no requests.'),
  statuses: z
    .array(statusRange)
    .min(1)
    .max(32)
    .default(['200-299'])
    .describe('Statuses of a successful check, each a number or a range.'),
})

export type HealthCheckConfig = z.infer<typeof healthCheckSchema>

const endpointList = z.array(z.union([endpointUrl, endpointObject])).max(64)

const canarySchema = z.strictObject({
  endpoints: endpointList
    .min(1)
    .describe('Endpoints that get a share of the auctions, as in `endpoints`.'),
  share: z
    .number()
    .min(0)
    .max(1)
    .describe('Share of the auctions, by the id of the bid request: the same ones on all nodes.'),
})

const discoverySchema = z.strictObject({
  dns: z
    .strictObject({
      type: z
        .enum(['A', 'SRV'])
        .default('A')
        .describe(
          'A: all addresses of the host of an endpoint. SRV: the host is the name of SRV records, which have hosts, ports, weights and priorities.',
        ),
      every: duration('15s')
        .refine((ms) => ms >= 500, 'a duration of at least 500ms')
        .describe('Time between two questions.'),
      servers: z
        .array(
          z
            .string()
            .regex(
              /^(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-fA-F:]+\])(:\d{1,5})?$/,
              'the address of a DNS server, such as 10.0.0.2:53',
            )
            .refine(isServer, 'the address of a DNS server, such as 10.0.0.2:53'),
        )
        .max(8)
        .default([])
        .describe('DNS servers. Default: those of the system.'),
    })
    .prefault({}),
})

export type DiscoveryConfig = z.infer<typeof discoverySchema>

export type Protocol = 'http/1.1' | 'h2' | 'auto'

/** What the keys of an upstream are, as a supplier of the configuration has them. */
export const upstreamShape = {
  endpoints: endpointList
    .default([])
    .describe(
      'Endpoints of the supplier, between which requests are balanced: a URL, or an object with a weight, a zone and a priority. Without one the integration serves standalone prices only.',
    ),
  headers: headersSchema
    .prefault({})
    .describe('Headers of the requests to the endpoints, beside those of the caller.'),
  tls: tlsSchema
    .optional()
    .describe('TLS to the endpoints: whom bidweir trusts, and who it is to them.'),
  discovery: discoverySchema
    .optional()
    .describe('How hosts of the endpoints are resolved. Default: their addresses, every 15 s.'),
  outliers: outliersSchema
    .prefault({})
    .describe('When an endpoint that fails gets no requests, and for how long.'),
  protocol: z
    .enum(['http/1.1', 'h2', 'auto'])
    .default('http/1.1')
    .describe(
      'Protocol of the endpoints. h2: HTTP/2, over TLS by ALPN, without TLS by prior knowledge. auto: HTTP/2 where an endpoint over TLS chooses it, otherwise HTTP/1.1.',
    ),
  canary: canarySchema
    .optional()
    .describe(
      'Other endpoints for a share of the auctions, such as a new version of the supplier, with metrics of both.',
    ),
  healthCheck: healthCheckSchema
    .optional()
    .describe(
      'Requests that find out whether an endpoint works. Without the block there are none.',
    ),
}

export const defaultOutliers = outliersSchema.parse({})

/**
 * An endpoint of the configuration, which may be its URL alone.
 *
 * @param endpoint a URL, or the block with its URL; what the block does not say gets its default
 */
export const endpointOf = (endpoint: string | EndpointConfig): EndpointConfig =>
  typeof endpoint === 'string' ? endpointObject.parse({ url: endpoint }) : endpoint
