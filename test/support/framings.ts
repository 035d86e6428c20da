/** An answer's body in every coding and framing that suppliers use. */
import * as zlib from 'node:zlib'

/** By name: encode and decode. */
export const codings: Record<string, [(body: Buffer) => Buffer, (body: Buffer) => Buffer]> = {
  identity: [(body) => body, (body) => body],
  gzip: [(body) => zlib.gzipSync(body), (body) => zlib.gunzipSync(body)],
  deflate: [(body) => zlib.deflateSync(body), (body) => zlib.inflateSync(body)],
  'raw deflate': [(body) => zlib.deflateRawSync(body), (body) => zlib.inflateRawSync(body)],
  br: [(body) => zlib.brotliCompressSync(body), (body) => zlib.brotliDecompressSync(body)],
}

/** The pieces of an answer after its other headers. */
export const framings: Record<string, (body: Buffer, head: string) => (string | Buffer)[]> = {
  'Content-Length': (body, head) => [`${head}Content-Length: ${body.length}\r\n\r\n`, body],
  chunked: (body, head) => [
    `${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`,
    body,
    '\r\n0\r\n\r\n',
  ],
  'a byte a chunk': (body, head) => [
    `${head}Transfer-Encoding: chunked\r\n\r\n`,
    ...[...body].flatMap((byte) => ['1\r\n', Buffer.from([byte]), '\r\n']),
    '0\r\n\r\n',
  ],
  'close-delimited': (body, head) => [`${head}Connection: close\r\n\r\n`, body],
}

/** A chunked body as latin1, without its chunks. */
export function unchunked(text: string): string {
  let out = ''
  for (let start = 0; ; ) {
    const end = text.indexOf('\r\n', start)
    const length = Number.parseInt(text.slice(start, end), 16)
    if (length === 0) return out
    out += text.slice(end + 2, end + 2 + length)
    start = end + 4 + length
  }
}
