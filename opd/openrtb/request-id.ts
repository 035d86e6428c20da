/** The id of a bid request, for logs and spans. It names an auction, not a user. */
import type { Body } from '../json/types.ts'
import { readRequest } from './request.ts'

/** Characters of an id that are kept. */
const longestId = 64
/** Longer requests are not read for their id alone: that takes a millisecond for 100 KiB. */
const longestRequest = 64 * 1024

export const shortId = (id: string): string => id.slice(0, longestId)

/** Undefined: the request has no id, cannot be read, or is too long. */
export function requestIdOf(request: Body): string | undefined {
  if (request.length > longestRequest) return undefined
  const id = readRequest(request)?.id ?? ''
  return id === '' ? undefined : shortId(id)
}
