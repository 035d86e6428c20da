/** What may be read of an answer, and what becomes of a changed body (CONTRACT 4.6, 4.7). */
import type { HeadReason } from '../../opd/pricing/types.ts'
import type { Reply } from '../listen/types.ts'
import { type Encoding, encode } from './encoding.ts'
import { header, towardsCaller, without } from './headers.ts'

/** As it came, fields as name and value in turns. */
export interface AnswerHead {
  status: number
  message: string
  headers: string[]
}

export type Answer =
  | { kind: 'as_is'; body: Buffer }
  /** `decoded`: the body goes out without its content encoding. */
  | { kind: 'changed'; body: Buffer; decoded: boolean }

/** A supplier's whole answer on its way to the caller. */
export function replyWhole(
  reply: Reply,
  { status, message, headers }: AnswerHead,
  answer: Answer,
  via: string | null,
): void {
  if (!reply.open) return
  const changed = answer.kind === 'changed'
  const bodiless = status === 204 || status === 304
  let out = towardsCaller(headers, bodiless ? null : answer.body.length, changed, via)
  if (changed && answer.decoded) out = without(out, 'content-encoding')
  if (status === 204) out = without(out, 'content-length')
  reply.whole(status, message, out, bodiless ? null : answer.body)
}

export const unreadableReason = 'unreadable'

const json = /^((application|text)\/json|[^\s/]+\/[^\s/]+\+json)?$/i
const charset = /;\s*charset\s*=\s*["']?([^"';\s]*)/i
/** None, or any spelling of UTF-8. */
const utf8 = /^(utf[-_]?8)?$/i
const noTransform = /(^|[\s,])no-transform($|[\s,;])/i

/** The last content types seen and what they say against a look; suppliers send one or two. Bounded. */
const verdicts = new Map<string, HeadReason | null>()

function againstType(contentType: string): HeadReason | null {
  let verdict = verdicts.get(contentType)
  if (verdict === undefined) {
    const [type] = contentType.split(';', 1)
    if (!json.test(type!.trim())) verdict = 'content_type'
    else verdict = utf8.test(charset.exec(contentType)?.[1] ?? '') ? null : 'charset'
    if (verdicts.size < 256 && contentType.length < 128) verdicts.set(contentType, verdict)
  }
  return verdict
}

/** Why OPD may not look at a 200 answer with these headers (CONTRACT 4.7); null: it may. */
export function notLookedAt(headers: readonly string[]): HeadReason | null {
  const contentType = header(headers, 'content-type')
  const against = contentType === undefined ? null : againstType(contentType)
  if (against !== null) return against
  const cacheControl = header(headers, 'cache-control')
  return cacheControl !== undefined && noTransform.test(cacheControl) ? 'no_transform' : null
}

/** A changed body, encoded as it came or left identity; a promise where that happens off the event loop. */
export function finishAnswer(
  body: Buffer,
  encoding: Encoding,
  recompress: 'same' | 'identity',
): Answer | Promise<Answer> {
  if (encoding === 'identity') return { kind: 'changed', body, decoded: false }
  if (recompress === 'identity') return { kind: 'changed', body, decoded: true }
  const encoded = encode(encoding, body)
  return encoded instanceof Promise
    ? encoded.then((late): Answer => ({ kind: 'changed', body: late, decoded: false }))
    : { kind: 'changed', body: encoded, decoded: false }
}
