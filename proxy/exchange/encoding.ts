/** Content encodings of requests and responses. Decoding is bounded; a body that cannot be decoded is forwarded (CONTRACT 4). */
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import type { BidHead } from '../types.ts'
import { header } from '../wire/headers.ts'

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

type Sync<Options> = (body: Uint8Array, options: Options) => Buffer
type Async<Options> = (
  body: Uint8Array,
  options: Options,
  done: (error: Error | null, result: Buffer) => void,
) => void
interface DecodeOptions {
  maxOutputLength: number
}

function codec<Options>(
  decodeSync: Sync<DecodeOptions>,
  decode: Async<DecodeOptions>,
  encodeSync: Sync<Options>,
  encode: Async<Options>,
  options: Options,
) {
  const encodeLater = promisify(encode)
  return {
    decodeSync,
    decode: promisify(decode),
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

export type Decoded =
  | { ok: true; body: Buffer; encoding: Encoding }
  | { ok: false; reason: 'too_large' | 'encoding' }

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

/** Decodes a body to at most `limit` bytes, if that is certainly fast; null: use `decodeLater`. */
export function decodeNow(headers: readonly string[], body: Buffer, limit: number): Decoded | null {
  const encoding = encodingOf(header(headers, 'content-encoding'))
  if (encoding === null) return undecodable
  if (encoding === 'identity') return { ok: true, body, encoding }
  if (body.length > syncLimit) return null
  const detected = detectDeflate(encoding, body) as Exclude<Encoding, 'identity'>
  try {
    const maxOutputLength = Math.min(limit, syncOutput)
    return {
      ok: true,
      body: codecs[detected].decodeSync(body, { maxOutputLength }),
      encoding: detected,
    }
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
    const decoded = await codecs[detected].decode(body, { maxOutputLength: limit })
    return { ok: true, body: decoded, encoding: detected }
  } catch (error) {
    return isTooLarge(error) ? tooLarge : undecodable
  }
}

/** Encodes a body; longer ones off the event loop. */
export function encode(encoding: Encoding, body: Buffer): Buffer | Promise<Buffer> {
  if (encoding === 'identity') return body
  const codec = codecs[encoding]
  return body.length <= syncLimit ? codec.encodeSync(body) : codec.encode(body)
}
