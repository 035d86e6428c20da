/** What came on one connection, cut into responses (RFC 9112 6.3). */
export interface Response {
  status: number
  reason: string
  /** Flat, as on the wire. */
  fields: string[]
  body: string
  /** The body came to the end that its head announced. */
  whole: boolean
}

const bodiless = (status: number) => status < 200 || status === 204 || status === 304

/** The value of a field, its name in lower case. */
export function field({ fields }: Response, name: string): string | undefined {
  const at = fields.findIndex((each, index) => index % 2 === 0 && each.toLowerCase() === name)
  return at < 0 ? undefined : fields[at + 1]
}

/** Null: what came is not a sequence of responses. The last one may be cut short. `text` is latin1. */
export function responsesOf(text: string): Response[] | null {
  const responses: Response[] = []
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\r\n\r\n', at)
    const [line, ...rows] = text.slice(at, end < 0 ? undefined : end).split('\r\n')
    const parts = /^HTTP\/1\.1 (\d{3}) (.*)$/s.exec(line!)
    if (end < 0 || parts === null) return null
    const fields = rows.flatMap((row) => {
      const colon = row.indexOf(':')
      return [row.slice(0, colon), row.slice(colon + 1).trim()]
    })
    const response: Response = {
      status: Number(parts[1]),
      reason: parts[2]!,
      fields,
      body: '',
      whole: true,
    }
    at = bodyOf(response, text, end + 4)
    responses.push(response)
    if (at < 0) return null
  }
  return responses
}

/** Where the next response begins; -1: the chunks are malformed. */
function bodyOf(response: Response, text: string, from: number): number {
  const length = field(response, 'content-length')
  if (bodiless(response.status)) return from
  if (field(response, 'transfer-encoding') === 'chunked') return chunksOf(response, text, from)
  const to = length === undefined ? text.length : from + Number(length)
  response.body = text.slice(from, to)
  response.whole = text.length >= to
  return to
}

function chunksOf(response: Response, text: string, from: number): number {
  for (let at = from; ; ) {
    const end = text.indexOf('\r\n', at)
    response.whole = end >= 0
    if (end < 0) return text.length
    if (!/^[0-9a-f]+$/i.test(text.slice(at, end))) return -1
    const size = Number.parseInt(text.slice(at, end), 16)
    response.body += text.slice(end + 2, end + 2 + size)
    at = end + 4 + size
    response.whole = at <= text.length
    if (!response.whole) return text.length
    if (text.slice(at - 2, at) !== '\r\n') return -1
    if (size === 0) return at
  }
}
