/** The head of a request as node:http read it: what it lets pass, and bidweir does not. */
import type { IncomingMessage } from 'node:http'
import { occurrences } from '../../opd/shared/header-list.ts'
import { foreignCoding } from '../exchange/headers.ts'
import type { ProblemCode } from '../problem.ts'
import { isHost } from '../wire/fields.ts'

/** RFC 9112 and DESIGN's rule 3: what is not certainly one request is none. */
export function headFault(request: IncomingMessage): ProblemCode | null {
  const { httpVersionMajor, httpVersionMinor, rawHeaders } = request
  if (httpVersionMajor !== 1) return 'version'
  if (httpVersionMinor === 0 && request.headers['transfer-encoding'] !== undefined) return 'version'
  if (foreignCoding(rawHeaders, false) !== undefined) return 'coding'
  const hosts = occurrences(rawHeaders, 'host')
  if (hosts > 1 || (hosts === 0 && httpVersionMinor >= 1)) return 'host'
  if (!isHost(request.headers.host ?? '')) return 'host'
  return null
}

/** An upgrade with a body comes as a stream that is no socket, which http-proxy ends the process over. */
export const hasBody = (headers: IncomingMessage['headers']) =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined

const absoluteForm = /^https?:\/\/[^/?#]*/i

/** Path and query of a request target; a proxy's absolute form is as good as the origin form (RFC 9112 3.2.2). */
export function pathOf(target: string): string {
  return target.startsWith('/') ? target : target.replace(absoluteForm, '')
}
