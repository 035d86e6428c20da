/** The id of a bid request, in JSON or Protocol Buffers, for logs and for what chooses by it. */
import type { Body } from '../json/scanner.ts'
import { readRequest } from '../openrtb/request.ts'
import { shortId } from '../shared/short-id.ts'
import { FieldTable, field, MessageReader } from './wire.ts'

/** Longer requests are not read for their id alone: that takes a millisecond for 100 KiB. */
const longestRead = 64 * 1024
/** Fields of a message among which its id is searched: the id is the first one. */
const searchedFields = 10_000

const idField = new FieldTable<{ id: string }>({
  1: field.text((request, value) => {
    request.id = value
  }),
})

/**
 * The id of a bid request, cut by `shortId`. Undefined: it has no id, cannot be read, or is too long.
 *
 * @param request JSON or Protocol Buffers
 */
export function requestIdOf(request: Body): string | undefined {
  if (request.length > longestRead) return undefined
  const id = readRequest(request)?.id ?? protobufIdOf(request)
  return id === '' ? undefined : shortId(id)
}

function protobufIdOf(request: Body): string {
  const bytes = typeof request === 'string' ? Buffer.from(request, 'latin1') : request
  const found = { id: '' }
  const state = MessageReader.readerOf(bytes, idField, found).read(searchedFields)
  return state === 'malformed' ? '' : found.id
}
