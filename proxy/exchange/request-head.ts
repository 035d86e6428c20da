/** The head of a bid request for an endpoint: the caller's, with what a proxy and the configuration change. */
import type { Forwarded, ForwardedFields } from '../types.ts'
import type { Endpoint } from '../upstream/endpoints.ts'
import type { HeaderRules } from '../wire/header-rules.ts'
import { header, towardsSupplier } from '../wire/headers.ts'
import { CommonFields, OutgoingRequest } from '../wire/outgoing-heads.ts'

export interface AttemptContext {
  via: string | null
  trusted: (remote: string) => boolean
}

/** The fields for any supplier. They are made once while the caller, whose connection and address are the same, repeats its own. */
function forwardedFields(
  { head, remote, secure }: Forwarded,
  { via, trusted: trusts }: AttemptContext,
): ForwardedFields {
  const trusted = trusts(remote)
  const { forwarded } = head
  if (forwarded?.trusted === trusted && forwarded.via === via) return forwarded
  const proto = secure ? 'https' : 'http'
  const host = header(head.fields, 'host') ?? ''
  const fields = towardsSupplier(head.fields, { remote, via, trusted, proto, host })
  head.forwarded = { fields: new CommonFields(fields), trusted, via, last: null }
  return head.forwarded
}

/** The head for an endpoint. It is made once while the caller asks for the same supplier with the same fields. */
export function requestHead(
  inbound: Forwarded,
  endpoint: Endpoint,
  rules: HeaderRules | null,
  context: AttemptContext,
): OutgoingRequest {
  const forwarded = forwardedFields(inbound, context)
  const { last, fields } = forwarded
  const { query } = inbound.head
  if (last?.endpoint === endpoint && last.rules === rules && last.query === query) return last.head
  const path = endpoint.target(query)
  const host = ['Host', endpoint.host]
  const head =
    rules === null
      ? new OutgoingRequest(path, host, 'POST', fields)
      : new OutgoingRequest(path, rules.apply([...host, ...fields.fields]))
  forwarded.last = { head, endpoint, rules, query }
  return head
}
