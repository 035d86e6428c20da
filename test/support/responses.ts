/** What came on one connection, cut into responses (RFC 9112 6.3). */
export interface Response {
  status: number
  reason: string
  /** Flat, as on the wire. */
  fields: string[]
  body: string
  /** The body came to the end that its head announced. */
  complete: boolean
}

const bodiless = (status: number) => status < 200 || status === 204 || status === 304

/** The value of a field, its name in lower case. */
export function field({ fields }: Response, name: string): string | undefined {
  const position = fields.findIndex(
    (field, index) => index % 2 === 0 && field.toLowerCase() === name,
  )
  return position < 0 ? undefined : fields[position + 1]
}

/** Null: what came is not a sequence of responses. The last one may be cut short. `text` is latin1. */
export function responsesOf(text: string): Response[] | null {
  const responses: Response[] = []
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\r\n\r\n', start)
    const [line, ...rows] = text.slice(start, end < 0 ? undefined : end).split('\r\n')
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
      complete: true,
    }
    start = bodyOf(response, text, end + 4)
    responses.push(response)
    if (start < 0) return null
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
  response.complete = text.length >= to
  return to
}

function chunksOf(response: Response, text: string, from: number): number {
  for (let start = from; ; ) {
    const end = text.indexOf('\r\n', start)
    response.complete = end >= 0
    if (end < 0) return text.length
    if (!/^[0-9a-f]+$/i.test(text.slice(start, end))) return -1
    const size = Number.parseInt(text.slice(start, end), 16)
    response.body += text.slice(end + 2, end + 2 + size)
    start = end + 4 + size
    response.complete = start <= text.length
    if (!response.complete) return text.length
    if (text.slice(start - 2, start) !== '\r\n') return -1
    if (size === 0) return start
  }
}
