import { isIP } from 'node:net'
import { createSecureContext } from 'node:tls'
import * as z from 'zod'
import { autoSize, duration, size } from '../opd/shared/units.ts'

/** `host:port`; the host is a name, an IPv4 address or an IPv6 address in brackets. Port 0: the system chooses. */
export const address = z
  .string()
  .regex(/^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):\d{1,5}$/, 'host:port, such as 0.0.0.0:8080')
  .refine((text) => Number(text.slice(text.lastIndexOf(':') + 1)) <= 65535, 'a port up to 65535')

const cidr = z.string().refine((text) => {
  // As strict as BlockList, which throws: `10/8` and `010.0.0.1` mean different things to different readers.
  const [ip = '', bits, ...more] = text.split('/')
  const family = ip.includes('%') ? 0 : isIP(ip)
  const width = bits === undefined ? 0 : /^\d{1,3}$/.test(bits) ? Number(bits) : 999
  return family !== 0 && more.length === 0 && width <= (family === 6 ? 128 : 32)
}, 'an IP address or a CIDR range such as 10.0.0.0/8')

const url = (schemes: string[]) =>
  z.string().refine(
    (text) => {
      if (!URL.canParse(text)) return false
      const parsed = new URL(text)
      return schemes.includes(parsed.protocol) && parsed.username === '' && parsed.hash === ''
    },
    `a URL without user or fragment (${schemes.map((scheme) => `${scheme}//host/path`).join(', ')})`,
  )

const origin = url(['http:', 'https:']).refine((text) => {
  if (!URL.canParse(text)) return true
  const parsed = new URL(text)
  return parsed.pathname === '/' && parsed.search === ''
}, 'an origin, without path or query')

/** Whether a listener accepts the pair. The check is part of the schema, so that a reload reports a fault. */
function isPair(tls: { cert: string; key: string }): boolean {
  try {
    createSecureContext(tls)
    return true
  } catch {
    return false
  }
}

export const proxySchema = z.strictObject({
  listen: address.default('0.0.0.0:8080'),
  tls: z
    .strictObject({ cert: z.string(), key: z.string() })
    .refine(isPair, { error: 'the private key of proxy.tls.cert, both in PEM', path: ['key'] })
    .optional(),
  maxRequestBytes: size('1MiB'),
  maxRewriteBytes: size('4MiB'),
  /** Request and response bodies in memory; above the limit, requests are refused with `overload`. */
  maxHeldBytes: autoSize(),
  trustedProxies: z.array(cidr).default([]),
  maxConnectionAge: duration('10m'),
  maxConnections: z.int().min(1).max(1_000_000).default(20_000),
  /** Requests in flight on this node, and of one supplier; above the limit, `overload`. */
  maxInFlight: z.int().min(1).default(16_384),
  maxInFlightPerSupplier: z.int().min(1).default(8192),
  headTimeout: duration('5s').refine((ms) => ms >= 1, 'a duration of at least 1ms'),
  /** An idle connection of a caller is closed after this. */
  keepAlive: duration('75s'),
  recompress: z.enum(['same', 'identity']).default('same'),
  /** Whether `Via` is added to requests and responses. */
  via: z.boolean().default(false),
})

/** The part of a supplier's configuration that the proxy uses. */
export const routeSchema = z.strictObject({
  /** Without endpoints, the integration is standalone only. */
  endpoints: z
    .array(url(['http:', 'https:']))
    .max(64)
    .default([]),
  timeout: duration('120ms').refine((ms) => ms >= 1, 'a duration of at least 1ms'),
  tmaxMargin: duration('10ms'),
  /** Requests of this node at the supplier at one time; `auto` adapts to the supplier's throughput and latency. */
  maxInFlight: z.union([z.literal('auto'), z.int().min(1)]).default('auto'),
  onFailure: z.enum(['no-bid', 'status']).default('no-bid'),
  callers: z
    .strictObject({
      cidrs: z.array(cidr).default([]),
      headers: z
        .record(z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'a header name'), z.string())
        .default({}),
    })
    .prefault({}),
  passThrough: origin.optional(),
})

export type ProxyConfig = z.infer<typeof proxySchema>
export type Route = z.infer<typeof routeSchema> & { id: string }
