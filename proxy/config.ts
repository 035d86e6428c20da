import { isIP } from 'node:net'
import * as z from 'zod'
import { is32Bytes } from '../opd/base/secret.ts'
import { certificatePair, clientAuthorities, isTlsPair } from '../opd/base/tls-pair.ts'
import { autoSize, duration, hostPort, size } from '../opd/base/units.ts'
import { accessLogSchema } from './access-log.ts'
import { headerName, headerValue, upstreamShape, url } from './upstream/config.ts'

const cidr = z.string().refine((text) => {
  // As strict as BlockList, which throws: `10/8` and `010.0.0.1` mean different things to different readers.
  const [ip = '', bits, ...more] = text.split('/')
  const family = ip.includes('%') ? 0 : isIP(ip)
  const width = bits === undefined ? 0 : /^\d{1,3}$/.test(bits) ? Number(bits) : 999
  return family !== 0 && more.length === 0 && width <= (family === 6 ? 128 : 32)
}, 'an IP address or a CIDR range such as 10.0.0.0/8')

const origin = url(['http:', 'https:']).refine((text) => {
  if (!URL.canParse(text)) return true
  const parsed = new URL(text)
  return parsed.pathname === '/' && parsed.search === ''
}, 'an origin, without path or query')

export const proxySchema = z.strictObject({
  listen: hostPort('0.0.0.0:8080')
    .default('0.0.0.0:8080')
    .describe(
      'Address of the listener for bid traffic, host:port. Port 0 lets the system choose a port.',
    ),
  tls: z
    .strictObject({
      ...certificatePair,
      clientCa: clientAuthorities(
        'Authorities of the certificates of callers, PEM. `callers.subjects` of a supplier names who may send its bids.',
      ),
      clientAuth: z
        .enum(['required', 'optional'])
        .default('required')
        .describe(
          'With clientCa: whether a caller without a certificate is refused in the handshake. optional: it may send what needs none, such as /pass. A certificate that is not valid is refused in any case.',
        ),
      ticketKey: z
        .string()
        .refine(is32Bytes, '32 bytes in base64url, as `bidweir key new` prints them')
        .optional()
        .describe(
          'Secret of session tickets, 32 bytes in base64url, so that a caller resumes its session at any of several nodes. Without it the processes of one node share a secret that they generate.',
        ),
    })
    .refine(isTlsPair, { error: 'the private key of proxy.tls.cert, both in PEM', path: ['key'] })
    .optional()
    .describe(
      'TLS of the listener for bid traffic. Without it the listener speaks plain HTTP/1.1.',
    ),
  http2: z
    .strictObject({
      enabled: z
        .boolean()
        .default(false)
        .describe(
          'Whether callers may use HTTP/2: over TLS by ALPN, without TLS with prior knowledge. The general lane serves it.',
        ),
      maxStreams: z
        .int()
        .min(1)
        .max(10_000)
        .default(256)
        .describe('Most requests of one connection at once. A change applies to new connections.'),
    })
    .prefault({})
    .describe('HTTP/2 of callers.'),
  accessLog: accessLogSchema
    .nullable()
    .default(null)
    .describe('Access log of bid requests. null: none, at no cost.'),
  maxRequestBytes: size('1MiB').describe(
    'Largest body of a bid request, bytes. Longer bodies are refused with 413.',
  ),
  maxRewriteBytes: size('4MiB').describe(
    'Largest bid response that OPD reads, bytes. Longer responses are sent on unchanged. The memory of their index is part of `maxHeldBytes`.',
  ),
  workers: z
    .union([z.literal('auto'), z.int().min(1).max(64)])
    .default(1)
    .describe(
      'Processes that serve bid traffic on this listener. auto: one for each core. More than 1 needs SO_REUSEPORT, such as on Linux. They share the limits of the node.',
    ),
  fastLane: z
    .boolean()
    .default(true)
    .describe(
      'Whether bid requests over HTTP/1.1, plain or TLS, are served on sockets, without node:http and undici. false: these serve everything.',
    ),
  maxHeldBytes: autoSize().describe(
    'Request and response bodies in memory at once, bytes. Above it requests are refused with the reason overload. auto: a share of the memory limit of the container or machine.',
  ),
  trustedProxies: z
    .array(cidr)
    .default([])
    .describe(
      'Addresses and CIDR ranges of the proxies in front of bidweir whose X-Forwarded-* headers are kept.',
    ),
  maxConnectionAge: duration('10m').describe(
    'Age at which a connection of a caller is closed, ±20 %, so that load spreads to new nodes.',
  ),
  maxConnections: z
    .int()
    .min(1)
    .max(1_000_000)
    .default(20_000)
    .describe('Most connections of callers at once.'),
  maxInFlight: z
    .int()
    .min(1)
    .default(16_384)
    .describe(
      'Most requests in flight on this node. Further ones are refused with the reason overload.',
    ),
  maxInFlightPerSupplier: z
    .int()
    .min(1)
    .default(8192)
    .describe(
      'Most requests in flight to one supplier on this node. Further ones are refused with the reason overload.',
    ),
  headTimeout: duration('5s')
    .refine((ms) => ms >= 1, 'a duration of at least 1ms')
    .describe(
      'Time limit for the head of a request, and for its body. The connection is closed after it.',
    ),
  keepAlive: duration('75s').describe('Idle time after which a connection of a caller is closed.'),
  recompress: z
    .enum(['same', 'identity'])
    .default('same')
    .describe(
      'Content coding of a rewritten bid response: same as the supplier used, or identity (none).',
    ),
  via: z
    .boolean()
    .default(false)
    .describe('Whether a Via header is added to requests and responses.'),
})

const mirrorSchema = z.strictObject({
  endpoint: url(['http:', 'https:']).describe('URL of the mirror.'),
  share: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe('Share of the requests that is copied. At most 64 copies are there at once.'),
})

export type MirrorConfig = z.infer<typeof mirrorSchema>

/** What the proxy needs of one supplier of the file. */
export const routeSchema = z.strictObject({
  ...upstreamShape,
  timeout: duration('120ms')
    .refine((ms) => ms >= 1, 'a duration of at least 1ms')
    .describe(
      "Longest time a bid request may take. The request's tmax less tmaxMargin applies if it is shorter.",
    ),
  tmaxMargin: duration('10ms').describe(
    'Time that is taken off the tmax of a request, for the way back to the caller.',
  ),
  maxInFlight: z
    .union([z.literal('auto'), z.int().min(1)])
    .default('auto')
    .describe(
      "Most requests at the supplier at once from this node. auto adapts to the supplier's latency.",
    ),
  onFailure: z
    .enum(['no-bid', 'status'])
    .default('no-bid')
    .describe('Response when the supplier fails: no-bid (204), or status (502, 503 or 504).'),
  callers: z
    .strictObject({
      cidrs: z
        .array(cidr)
        .default([])
        .describe('Addresses and CIDR ranges that may send bid requests. Empty: any.'),
      headers: z
        .record(headerName, headerValue)
        .default({})
        .describe('Headers and the values that a bid request must carry.'),
      subjects: z
        .array(z.string().min(1).max(512))
        .max(1000)
        .default([])
        .describe(
          'Certificates that may send bid requests, with proxy.tls.clientCa: a common name or alternative name (DNS, URI, mail), or attributes of the subject such as `O=Acme, OU=Bids`. Empty: any.',
        ),
    })
    .prefault({})
    .describe('Who may send bid requests of this supplier. Others get 403.'),
  openrtb: z
    .enum(['json', 'protobuf'])
    .default('json')
    .describe(
      'Format of bid requests and bid responses whose Content-Type is absent or application/octet-stream. protobuf: Protocol Buffers. json: JSON without a Content-Type; octets are not read.',
    ),
  mirror: mirrorSchema
    .optional()
    .describe(
      'A second endpoint that gets copies of requests. Its responses are compared in metrics and thrown away.',
    ),
  passThrough: origin
    .optional()
    .describe(
      'Origin to which /pass/<ssp>/ forwards requests, such as cookie syncs. Without it the path is 404.',
    ),
})

export type ProxyConfig = z.infer<typeof proxySchema>
export type Route = z.infer<typeof routeSchema> & { id: string }
