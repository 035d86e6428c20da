/** Which response of a connection of node:http is its last one, where the connection is to end. */
import type { ServerResponse } from 'node:http'
import { connectionOf, type Connection as Pipeline } from '../../opd/shared/pipelining.ts'

export interface Connection extends Pipeline {
  /** `performance.now()` from which on the connection is to end. */
  bidweirRetire?: number
  /** The response that ends the connection. */
  bidweirLast?: ServerResponse
}

/** Called when the head of a response is written. The last response is that of the newest request that has arrived. */
export function isLast(response: ServerResponse, retired: boolean): boolean {
  const connection: Connection = connectionOf(response)
  if (retired && connection.bidweirLast === undefined && connection.bidweirNewest !== undefined)
    connection.bidweirLast = connection.bidweirNewest
  return connection.bidweirLast === response
}
