/**
 * Header fields of a strict HTTP/1.1 head (RFC 9112 5), for the fast lane on both sides. Anything else than a well-formed
 * field line is rejected; node:http's parser, in the general lane, is more lenient.
 */
const HTAB = 9
const LF = 10
const CR = 13
const SPACE = 32
const COLON = 58

/** RFC 9110 5.6.2: token characters. */
const token = new Uint8Array(256)
for (const char of "!#$%&'*+-.^_`|~0123456789") token[char.charCodeAt(0)] = 1
for (let code = 65; code <= 90; code++) {
  token[code] = 1
  token[code + 32] = 1
}
/** RFC 9110 5.5: characters of a field value: HTAB, SP, visible ASCII, obs-text. */
const content = new Uint8Array(256).fill(1, SPACE, 127).fill(1, 128)
content[HTAB] = 1

/**
 * Reads `name: value CRLF` lines from `from` to the end of `text` (a head as latin1, without its blank line), and
 * appends names and values to `fields`. False: malformed (a fold, a bare CR or LF, a space before the colon, a control
 * character).
 */
export function readFields(text: string, from: number, fields: string[]): boolean {
  const { length } = text
  for (let index = from; index < length; index += 2) {
    const start = index
    while (token[text.charCodeAt(index)] === 1) index++
    if (index === start || text.charCodeAt(index) !== COLON) return false
    const name = text.slice(start, index)
    let code = text.charCodeAt(++index)
    while (code === SPACE || code === HTAB) code = text.charCodeAt(++index)
    const valueStart = index
    while (content[text.charCodeAt(index)] === 1) index++
    if (text.charCodeAt(index) !== CR || text.charCodeAt(index + 1) !== LF) return false
    let valueEnd = index
    while (valueEnd > valueStart && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--
    fields.push(name, text.slice(valueStart, valueEnd))
  }
  return true
}

function isBlank(code: number): boolean {
  return code === SPACE || code === HTAB
}

/**
 * The first line and the fields of a head; its blank line is not included.
 *
 * @param firstLine without CRLF
 * @param fields names and values in turn
 */
export function headText(firstLine: string, fields: readonly string[]): string {
  let text = firstLine
  for (let index = 0; index < fields.length; index += 2)
    text += `${fields[index]!}: ${fields[index + 1]!}\r\n`
  return text
}

/**
 * A response without a body that ends its connection.
 *
 * @param line status and reason, such as `400 Bad Request`
 * @param fields whole lines, each with its CRLF
 */
export const closingResponse = (line: string, fields = '') =>
  `HTTP/1.1 ${line}\r\n${fields}Connection: close\r\nContent-Length: 0\r\n\r\n`

/** The value of a `Content-Length` (RFC 9110 8.6), if a number represents it exactly; otherwise null. */
export function lengthOf(value: string): number | null {
  return /^\d{1,15}$/.test(value) ? Number(value) : null
}

const hostValue = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::\d*)?$/

/**
 * Whether a `Host` is empty or names one host (RFC 9110 7.2). Any other value is refused (RFC 9112 3.2).
 *
 * @param value of the field, without white space around it
 */
export const isHost = (value: string): boolean => hostValue.test(value)

/**
 * Header lists are flat, `[name, value, name, value, …]`, as in node:http and undici: order, spelling and repetition
 * are kept (CONTRACT 3: end-to-end headers are forwarded byte for byte).
 */

/** Fields of a single connection (RFC 9110 7.6.1), in lower case. */
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

/** Set by bidweir in the request to the supplier. `expect` was handled by the listener. */
const requestOwned = new Set([
  'host',
  'content-length',
  'expect',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
])

/**
 * Whether a configuration may set or remove a header of requests to a supplier, by its name in lower case. The coding of the
 * body is that of the caller's bytes.
 *
 * @param name in lower case
 */
export const mayBeSet = (name: string): boolean =>
  !hopByHop.has(name) && !['host', 'content-length', 'content-encoding', 'expect'].includes(name)

/** Replaced by bidweir in a response that it sends whole or with a length of its own. */
export const framing: ReadonlySet<string> = new Set(['content-length'])
/** Not valid any more after a change of the body (CONTRACT 4.6). */
export const ofChangedBody: ReadonlySet<string> = new Set([
  ...framing,
  ...['etag', 'content-md5', 'digest', 'content-digest', 'repr-digest'],
])
/** The same if the body is also sent without its content encoding. */
export const ofDecodedBody: ReadonlySet<string> = new Set([...ofChangedBody, 'content-encoding'])

const none: ReadonlySet<string> = new Set()

function namedByConnection(raw: readonly string[]): ReadonlySet<string> {
  let named: Set<string> | undefined
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!
    if (name.length !== 10 || name.toLowerCase() !== 'connection') continue
    const value = raw[index + 1]!.toLowerCase()
    if (value === 'keep-alive' || value === 'close') continue
    named ??= new Set()
    for (const token of value.split(',')) named.add(token.trim())
  }
  return named ?? none
}

/** Lower-case names by the spelling received: callers send the same few names in each request. Bounded. */
const lowerCase = new Map<string, string>()
/**
 * The name in lower case. Short names are kept, so that no request makes theirs again.
 *
 * @param name of a header, in any case
 */
export function lower(name: string): string {
  let known = lowerCase.get(name)
  if (known === undefined) {
    known = name.toLowerCase()
    // A copy: a slice would keep the whole head in memory.
    if (lowerCase.size < 1024 && name.length < 64)
      lowerCase.set(Buffer.from(name, 'latin1').toString('latin1'), known)
  }
  return known
}

interface Forwarding {
  /** The peer's address, and whether its X-Forwarded-* are kept. */
  remote: string
  trusted: boolean
  proto: 'http' | 'https'
  host: string
  /** The value of `Via` to add, or null. */
  via: string | null
}

/**
 * The headers of a request to a supplier, without Host and Content-Length.
 *
 * @param raw names and values in turn, of the caller
 * @param forwarding what is added, replaced and removed
 */
export function towardsSupplier(raw: readonly string[], forwarding: Forwarding): string[] {
  const named = namedByConnection(raw)
  const out: string[] = []
  let forwardedFor = ''
  let proto: string = forwarding.proto
  let host = forwarding.host
  for (let index = 0; index < raw.length; index += 2) {
    const name = lower(raw[index]!)
    if (requestOwned.has(name)) {
      if (!forwarding.trusted) continue
      if (name === 'x-forwarded-for') forwardedFor += `${raw[index + 1]!}, `
      else if (name === 'x-forwarded-proto') proto = raw[index + 1]!
      else if (name === 'x-forwarded-host') host = raw[index + 1]!
      continue
    }
    if (hopByHop.has(name) || named.has(name)) continue
    out.push(raw[index]!, raw[index + 1]!)
  }
  out.push('X-Forwarded-For', forwardedFor + forwarding.remote)
  out.push('X-Forwarded-Proto', proto, 'X-Forwarded-Host', host)
  if (forwarding.via !== null) out.push('Via', forwarding.via)
  return out
}

/**
 * The headers of a response to the caller, without those of the connection.
 *
 * @param raw names and values in turn
 * @param dropped names in lower case that are not forwarded
 * @param via value of the `Via` to add; null: none
 */
export function towardsCaller(
  raw: readonly string[],
  dropped = none,
  via: string | null = null,
): string[] {
  const named = namedByConnection(raw)
  const out: string[] = []
  for (let index = 0; index < raw.length; index += 2) {
    const name = lower(raw[index]!)
    if (hopByHop.has(name) || named.has(name) || dropped.has(name)) continue
    out.push(raw[index]!, raw[index + 1]!)
  }
  if (via !== null) out.push('Via', via)
  return out
}

/**
 * The value of a header, by its name in lower case; `undefined` if absent; joined with `, ` if repeated.
 *
 * @param raw names and values in turn, as node:http gives them
 * @param wanted in lower case
 */
export function header(raw: readonly string[], wanted: string): string | undefined {
  let value: string | undefined
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]!
    if (name.length !== wanted.length || lower(name) !== wanted) continue
    value = value === undefined ? raw[index + 1]! : `${value}, ${raw[index + 1]!}`
  }
  return value
}

/**
 * A transfer coding other than `chunked`, the only one that node:http and undici decode: the body would be forwarded
 * encoded, without the name of its coding. HTTP/1.0 has no transfer codings (RFC 9112 6.1). `undefined`: there is none.
 *
 * @param raw names and values in turn
 * @param http10 the message is of HTTP/1.0
 */
export function unsupportedCoding(raw: readonly string[], http10: boolean): string | undefined {
  const coding = header(raw, 'transfer-encoding')
  // Tabs are not trimmed: llhttp takes `chunked` and a tab for another coding, and reads the body until the close.
  return !http10 && coding !== undefined && /^chunked *$/i.test(coding) ? undefined : coding
}

const plain = /^[\t\x20-\x7e]*$/

/**
 * The reason phrase, if it may be forwarded (RFC 9112 4), otherwise ''. node:http throws on control characters. undici
 * reads UTF-8, and U+010D U+010A written as latin1 are CR and LF: the caller would read fields that were never sent.
 *
 * @param message as latin1
 */
export const plainPhrase = (message: string): string => (plain.test(message) ? message : '')

/**
 * The list without one header, given in lower case.
 *
 * @param headers names and values in turn; not changed
 * @param wanted in lower case
 */
export function without(headers: string[], wanted: string): string[] {
  const out: string[] = []
  for (let index = 0; index < headers.length; index += 2)
    if (lower(headers[index]!) !== wanted) out.push(headers[index]!, headers[index + 1]!)
  return out
}
