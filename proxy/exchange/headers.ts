/**
 * Header lists are flat, `[name, value, name, value, …]`, as node:http and undici carry them: order, spelling and
 * repetition survive (CONTRACT 3: end-to-end headers go through byte for byte).
 */

/** RFC 9110 7.6.1, and `Proxy-*` and `TE` of the hop; all lower case. */
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** Set anew towards the supplier, whatever the caller sent. `expect` was answered by the listener. */
const requestOwned = new Set([
  'host',
  'content-length',
  'expect',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])

/** No longer true once bytes of the body changed (CONTRACT 4.6). */
const bodyDigests = new Set(['etag', 'content-md5', 'digest', 'content-digest', 'repr-digest'])

const nothing: ReadonlySet<string> = new Set()

function namedByConnection(raw: readonly string[]): ReadonlySet<string> {
  let named: Set<string> | undefined
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!
    if (name.length !== 10 || name.toLowerCase() !== 'connection') continue
    const value = raw[at + 1]!.toLowerCase()
    if (value === 'keep-alive' || value === 'close') continue
    named ??= new Set()
    for (const token of value.split(',')) named.add(token.trim())
  }
  return named ?? nothing
}

/** Lower-case spellings by the spelling that came: callers send the same few names again and again. Bounded. */
const lowered = new Map<string, string>()
export function lower(name: string): string {
  let known = lowered.get(name)
  if (known === undefined) {
    known = name.toLowerCase()
    // A copy: a slice would hold the whole head that it was cut from.
    if (lowered.size < 1024 && name.length < 64)
      lowered.set(Buffer.from(name, 'latin1').toString('latin1'), known)
  }
  return known
}

export interface Forwarding {
  /** The peer's address, and whether its own X-Forwarded-* are kept. */
  remote: string
  trusted: boolean
  proto: 'http' | 'https'
  host: string
  /** The value of `Via` to add, or null. */
  via: string | null
}

/** The caller's headers as the supplier's host gets them. `bodyLength` is the whole body's; null: no length is said. */
export function towardsSupplier(
  raw: readonly string[],
  endpointHost: string,
  bodyLength: number | null,
  forwarding: Forwarding,
): string[] {
  const named = namedByConnection(raw)
  const out = ['Host', endpointHost]
  let forwardedFor = ''
  let proto: string = forwarding.proto
  let host = forwarding.host
  for (let at = 0; at < raw.length; at += 2) {
    const name = lower(raw[at]!)
    if (requestOwned.has(name)) {
      if (!forwarding.trusted) continue
      if (name === 'x-forwarded-for') forwardedFor += `${raw[at + 1]!}, `
      else if (name === 'x-forwarded-proto') proto = raw[at + 1]!
      else if (name === 'x-forwarded-host') host = raw[at + 1]!
      continue
    }
    if (hopByHop.has(name) || named.has(name)) continue
    out.push(raw[at]!, raw[at + 1]!)
  }
  out.push('X-Forwarded-For', forwardedFor + forwarding.remote)
  out.push('X-Forwarded-Proto', proto, 'X-Forwarded-Host', host)
  if (forwarding.via !== null) out.push('Via', forwarding.via)
  if (bodyLength !== null) out.push('Content-Length', String(bodyLength))
  return out
}

/**
 * The supplier's headers as the caller gets them. `length` null: the body streams and keeps its own
 * Content-Length; else it is set to `length`, and digests go when `changed`. `via`: the value of `Via` to add.
 */
export function towardsCaller(
  raw: readonly string[],
  length: number | null,
  changed: boolean,
  via: string | null = null,
): string[] {
  const named = namedByConnection(raw)
  const out: string[] = []
  for (let at = 0; at < raw.length; at += 2) {
    const name = lower(raw[at]!)
    if (hopByHop.has(name) || named.has(name)) continue
    if (length !== null && name === 'content-length') continue
    if (changed && bodyDigests.has(name)) continue
    out.push(raw[at]!, raw[at + 1]!)
  }
  if (length !== null) out.push('Content-Length', String(length))
  if (via !== null) out.push('Via', via)
  return out
}

/** The value of a header, the name in lower case; `undefined` when absent, joined with `, ` when repeated. */
export function header(raw: readonly string[], wanted: string): string | undefined {
  let value: string | undefined
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at]!
    if (name.length !== wanted.length || lower(name) !== wanted) continue
    value = value === undefined ? raw[at + 1]! : `${value}, ${raw[at + 1]!}`
  }
  return value
}

/**
 * A transfer coding other than `chunked`, which alone is undone by those who read for us: what another one left would go
 * on unnamed. `old`: of HTTP/1.0, which has none (RFC 9112 6.1). `undefined` where there is none.
 */
export function foreignCoding(raw: readonly string[], old: boolean): string | undefined {
  const coding = header(raw, 'transfer-encoding')
  // Not trimmed of tabs: llhttp reads `chunked` and a tab as another coding, and its body to the connection's end.
  return !old && coding !== undefined && /^chunked *$/i.test(coding) ? undefined : coding
}

const plain = /^[\t\x20-\x7e]*$/

/**
 * A reason phrase that may be written again (RFC 9112 4), '' for any other. On control characters node:http throws; undici
 * reads UTF-8, and U+010D U+010A written as latin1 are CR and LF: the caller would see fields that were never sent.
 */
export const plainPhrase = (message: string): string => (plain.test(message) ? message : '')

/** The list less one header, its name in lower case. */
export function without(headers: string[], wanted: string): string[] {
  const out: string[] = []
  for (let at = 0; at < headers.length; at += 2)
    if (lower(headers[at]!) !== wanted) out.push(headers[at]!, headers[at + 1]!)
  return out
}
