/** The head of a bid request for an endpoint: the caller's, with what a proxy and the configuration change. */
import type { Inbound } from '../types.ts'
import type { Endpoint } from '../upstream/endpoints.ts'
import type { HeaderRules } from '../wire/header-rules.ts'
import { header, towardsSupplier } from '../wire/headers.ts'
import { OutgoingRequest } from '../wire/outgoing-heads.ts'

export interface AttemptContext {
  via: string | null
  trusted: (remote: string) => boolean
}

export function requestHead(
  { head, remote, secure }: Inbound,
  endpoint: Endpoint,
  rules: HeaderRules | null,
  { via, trusted }: AttemptContext,
): OutgoingRequest {
  const fields = towardsSupplier(head.fields, endpoint.host, {
    ...{ remote, via, trusted: trusted(remote) },
    proto: secure ? 'https' : 'http',
    host: header(head.fields, 'host') ?? '',
  })
  return new OutgoingRequest(endpoint.target(head.query), rules?.apply(fields) ?? fields)
}
