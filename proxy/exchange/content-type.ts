/** How the body of a bid request or a bid response is written, by its Content-Type (CONTRACT 4.7). */
import type { OpenRtbFormat } from '../../opd/types.ts'
import type { BidHead, ContentType } from '../types.ts'
import { header } from '../wire/headers.ts'

const json = /^((application|text)\/json|[^\s/]+\/[^\s/]+\+json)?$/i
const protobuf = /^application\/(x-protobuf|protobuf|vnd\.google\.protobuf)$/i
const octets = /^application\/octet-stream$/i
const charset = /;\s*charset\s*=\s*["']?([^"';\s]*)/i
/** None, or any spelling of UTF-8. */
const utf8 = /^(utf[-_]?8)?$/i

/** Recent content types; a supplier uses one or two. Bounded. */
const known = new Map<string, ContentType>()

function read(value: string): ContentType {
  const [name = ''] = value.split(';', 1)
  const type = name.trim()
  if (protobuf.test(type)) return 'protobuf'
  if (octets.test(type)) return 'octets'
  if (!json.test(type)) return 'content_type'
  return utf8.test(charset.exec(value)?.[1] ?? '') ? 'json' : 'charset'
}

function contentTypeOf(fields: readonly string[]): ContentType {
  const value = header(fields, 'content-type')
  if (value === undefined) return 'unnamed'
  let type = known.get(value)
  if (type === undefined) {
    type = read(value)
    if (known.size < 256 && value.length < 128) known.set(value, type)
  }
  return type
}

/**
 * The format of a response, or why it is not read.
 *
 * @param openrtb - the format that is configured for the supplier
 */
export function responseFormat(
  fields: readonly string[],
  openrtb: OpenRtbFormat,
): OpenRtbFormat | 'content_type' | 'charset' {
  const type = contentTypeOf(fields)
  if (type === 'unnamed') return openrtb
  if (type === 'octets') return openrtb === 'protobuf' ? openrtb : 'content_type'
  return type
}

/** The format of a bid request, which is JSON unless its Content-Type or its supplier says otherwise. */
export function requestFormat(head: BidHead, openrtb: OpenRtbFormat): OpenRtbFormat {
  head.contentType ??= contentTypeOf(head.fields)
  const type = head.contentType
  if (type === 'unnamed' || type === 'octets') return openrtb
  return type === 'protobuf' ? type : 'json'
}
