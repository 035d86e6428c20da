/**
 * How the body of a bid request or a bid response is written: its Content-Type (CONTRACT 4.7) and its Content-Encoding. Decoding
 * is bounded; a body that cannot be decoded is forwarded (CONTRACT 4).
 */

import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import type { GzipEncoder } from '../../opd/base/gzip-encoder.ts'
import type { OpenRtbFormat } from '../../opd/types.ts'
import type { BidHead, ContentType } from '../types.ts'
import { header } from '../wire/headers.ts'
import type { KeptGunzip } from './kept-gunzip.ts'

const jsonType = /^((application|text)\/json|[^\s/]+\/[^\s/]+\+json)?$/i
const protobufType = /^application\/(x-protobuf|protobuf|vnd\.google\.protobuf)$/i
const octetsType = /^application\/octet-stream$/i
const charsetParameter = /;\s*charset\s*=\s*["']?([^"';\s]*)/i
/** None, or any spelling of UTF-8. */
const utf8Name = /^(utf[-_]?8)?$/i

/** Recent content types; a supplier uses one or two. Bounded. */
const knownTypes = new Map<string, ContentType>()

function readType(value: string): ContentType {
  const [name = ''] = value.split(';', 1)
  const type = name.trim()
  if (protobufType.test(type)) return 'protobuf'
  if (octetsType.test(type)) return 'octets'
  if (!jsonType.test(type)) return 'content_type'
  return utf8Name.test(charsetParameter.exec(value)?.[1] ?? '') ? 'json' : 'charset'
}

function contentTypeOf(fields: readonly string[]): ContentType {
  const value = header(fields, 'content-type')
  if (value === undefined) return 'unnamed'
  let type = knownTypes.get(value)
  if (type === undefined) {
    type = readType(value)
    if (knownTypes.size < 256 && value.length < 128) knownTypes.set(value, type)
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

export type Encoding = 'identity' | 'gzip' | 'deflate' | 'deflate-raw' | 'br'

/** Longer bodies are compressed and decompressed off the event loop (CONTRACT 2, `recompress`). */
const syncLimit = 64 * 1024
/** A small body may decode to a thousand times its length: the limit on the event loop (about 0.3 ms). */
const syncOutput = 512 * 1024

/** By the value of Content-Encoding. */
const encodings = new Map<string, Encoding>([
  ['', 'identity'],
  ['identity', 'identity'],
  ['gzip', 'gzip'],
  ['x-gzip', 'gzip'],
  ['deflate', 'deflate'],
  ['br', 'br'],
])

/** The encoding that a Content-Encoding header names; null: unknown, or several. */
const encodingOf = (value: string | undefined): Encoding | null =>
  value === undefined ? 'identity' : (encodings.get(value.trim().toLowerCase()) ?? null)

type Sync<Options, Result> = (body: Uint8Array, options: Options) => Result
type Async<Options, Result> = (
  body: Uint8Array,
  options: Options,
  done: (error: Error | null, result: Result) => void,
) => void
interface DecodeOptions {
  maxOutputLength: number
  info: true
}
/** The result of zlib with the option `info`. `bytesWritten`: bytes of the input up to the end of the stream. */
interface DecodedStream {
  buffer: Buffer
  engine: { bytesWritten: number }
}

function codec<Options>(
  decodeSync: Sync<DecodeOptions, unknown>,
  decode: Async<DecodeOptions, Buffer>,
  encodeSync: Sync<Options, Buffer>,
  encode: Async<Options, Buffer>,
  options: Options,
) {
  const encodeLater = promisify(encode)
  const decodeLater: (body: Uint8Array, options: DecodeOptions) => Promise<unknown> =
    promisify(decode)
  return {
    // The types of Node.js do not know what `info` changes.
    decodeSync: decodeSync as Sync<DecodeOptions, DecodedStream>,
    decode: decodeLater as (...call: Parameters<typeof decodeLater>) => Promise<DecodedStream>,
    encodeSync: (body: Uint8Array) => encodeSync(body, options),
    encode: (body: Uint8Array) => encodeLater(body, options),
  }
}

const zlibOptions = { level: 1 }
const brotliOptions = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } }

const codecs = {
  gzip: codec(zlib.gunzipSync, zlib.gunzip, zlib.gzipSync, zlib.gzip, zlibOptions),
  deflate: codec(zlib.inflateSync, zlib.inflate, zlib.deflateSync, zlib.deflate, zlibOptions),
  'deflate-raw': codec(
    zlib.inflateRawSync,
    zlib.inflateRaw,
    zlib.deflateRawSync,
    zlib.deflateRaw,
    zlibOptions,
  ),
  br: codec(
    zlib.brotliDecompressSync,
    zlib.brotliDecompress,
    zlib.brotliCompressSync,
    zlib.brotliCompress,
    brotliOptions,
  ),
}

export interface DecodedBody {
  ok: true
  body: Buffer
  encoding: Encoding
}

export type Decoded = DecodedBody | { ok: false; reason: 'too_large' | 'encoding' }

const tooLarge = { ok: false, reason: 'too_large' } as const
const undecodable = { ok: false, reason: 'encoding' } as const

export const isTooLarge = (error: unknown) =>
  (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'

/** `deflate` means zlib, but some servers send raw deflate. The first two bytes differ (RFC 1950 2.2). */
function detectDeflate(encoding: Encoding, body: Buffer): Encoding {
  if (encoding !== 'deflate' || body.length < 2) return encoding
  const zlibHeader = (body[0]! & 0x0f) === 8 && ((body[0]! << 8) | body[1]!) % 31 === 0
  return zlibHeader ? 'deflate' : 'deflate-raw'
}

/** The encoding of a request, if bidweir can read it (CONTRACT 3); null: any other. */
export function requestEncoding(head: BidHead): BidHead['encoding'] {
  if (head.encoding === undefined) {
    const encoding = encodingOf(header(head.fields, 'content-encoding'))
    head.encoding = encoding === 'identity' || encoding === 'gzip' ? encoding : null
  }
  return head.encoding
}

const info = true

/**
 * The decoded body, if the stream takes the whole body: bytes after its end would be lost. A gzip stream may have several
 * members (RFC 1952 2.2); zlib reads them as one.
 */
const wholeStream = (
  body: Buffer,
  encoding: Encoding,
  { buffer, engine }: DecodedStream,
): Decoded =>
  engine.bytesWritten === body.length ? { ok: true, body: buffer, encoding } : undecodable

/** Decodes a body to at most `limit` bytes, if that is certainly fast; null: use `decodeLater`. */
export function decodeNow(
  headers: readonly string[],
  body: Buffer,
  limit: number,
  gunzip: KeptGunzip | null,
): Decoded | null {
  const encoding = encodingOf(header(headers, 'content-encoding'))
  if (encoding === null) return undecodable
  if (encoding === 'identity') return { ok: true, body, encoding }
  if (body.length > syncLimit) return null
  if (encoding === 'gzip') {
    const decoded = gunzip?.decode(body, limit)
    if (decoded != null) return { ok: true, body: decoded, encoding }
  }
  const detected = detectDeflate(encoding, body) as Exclude<Encoding, 'identity'>
  try {
    const maxOutputLength = Math.min(limit, syncOutput)
    return wholeStream(body, detected, codecs[detected].decodeSync(body, { maxOutputLength, info }))
  } catch (error) {
    if (!isTooLarge(error)) return undecodable
    return limit <= syncOutput ? tooLarge : null
  }
}

/** The same off the event loop. */
export async function decodeLater(
  headers: readonly string[],
  body: Buffer,
  limit: number,
): Promise<Decoded> {
  const encoding = encodingOf(header(headers, 'content-encoding')) as Exclude<Encoding, 'identity'>
  const detected = detectDeflate(encoding, body) as Exclude<Encoding, 'identity'>
  try {
    const decoded = await codecs[detected].decode(body, { maxOutputLength: limit, info })
    return wholeStream(body, detected, decoded)
  } catch (error) {
    return isTooLarge(error) ? tooLarge : undecodable
  }
}

/** Encodes a body, given as bytes or as latin1 text; longer ones off the event loop. */
export function encode(
  encoding: Exclude<Encoding, 'identity'>,
  body: Buffer | string,
  gzip: GzipEncoder,
): Buffer | Promise<Buffer> {
  const encoded = encoding === 'gzip' ? gzip.encode(body) : null
  if (encoded !== null) return encoded
  const bytes = typeof body === 'string' ? Buffer.from(body, 'latin1') : body
  const codec = codecs[encoding]
  return bytes.length <= syncLimit ? codec.encodeSync(bytes) : codec.encode(bytes)
}
