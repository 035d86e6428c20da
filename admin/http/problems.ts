/**
 * The problems of the admin listener, by code: status, title, and whether to send the same request again. `no`: it is refused
 * again. `changed`: after what it depends on has changed, such as the supplier that it would change. `later`: as it is.
 */

type Row = readonly [status: number, title: string, retry: 'no' | 'changed' | 'later']

/** Every problem: its status, its title, and whether the call may be repeated. */
export const problems = {
  malformed: [400, 'The request is not valid', 'no'],
  invalid_parameters: [400, 'A parameter is not valid', 'no'],
  svc_opd_required: [400, 'This integration is in margin mode: svc_opd is required', 'no'],
  unauthorized: [401, 'A valid access token is required', 'changed'],
  context_required: [401, 'A valid svc_opd or an access token is required', 'no'],
  forbidden: [403, 'The caller may not do this', 'no'],
  opd_disabled: [403, 'OPD is not enabled for the integration', 'changed'],
  not_found: [404, 'No such path', 'no'],
  no_decision_log: [404, 'This node writes no decision log', 'changed'],
  opd_off: [404, 'OPD is off for this supplier', 'changed'],
  too_few_bids: [404, 'Too few bids are known', 'later'],
  unknown_decision: [404, 'No visible decision', 'no'],
  unknown_node: [404, 'No such node', 'no'],
  unknown_process: [404, 'No such process', 'no'],
  unknown_snapshot: [404, 'No such snapshot', 'no'],
  unknown_supplier: [404, 'No such supplier', 'no'],
  unknown_user: [404, 'No such user', 'no'],
  unknown_win: [404, 'No such win', 'no'],
  method_not_allowed: [405, 'The method is not allowed for this path', 'no'],
  ambiguous: [409, 'Several suppliers have sent this bid id', 'no'],
  damaged_snapshot: [409, 'The snapshot is damaged', 'no'],
  exists: [409, 'An entry exists already', 'changed'],
  file_supplier: [409, 'A supplier of the file is changed there', 'changed'],
  last_endpoint: [409, 'No other endpoint would be left', 'changed'],
  last_admin: [409, 'Without this user nobody could log in as operator of all accounts', 'changed'],
  reserved: [409, 'The id belongs to another account', 'no'],
  user_exists: [409, 'There is such a user already', 'no'],
  expired: [410, 'The context is older than contextTtl', 'no'],
  outdated: [412, 'The supplier has changed since it was read', 'changed'],
  timeout: [408, 'The request did not arrive in time', 'later'],
  too_large: [413, 'The request is too large', 'no'],
  too_long: [414, 'The path is too long', 'no'],
  unsupported_encoding: [415, 'The body must not be encoded', 'no'],
  unsupported_media_type: [415, 'The body must be application/json', 'no'],
  allotment: [422, "An allotment exceeds the sum of its seats' qps", 'changed'],
  implausible_price: [422, 'The cleared price is not plausible', 'no'],
  invalid_supplier: [422, 'The supplier has faults', 'no'],
  names_differ: [422, 'The names are not the names of this supplier', 'no'],
  no_version: [422, 'There is no such version to return to', 'no'],
  not_editable: [422, 'Only is_active and client_qps can be edited', 'no'],
  unknown_endpoint: [422, 'The supplier has no such endpoint', 'no'],
  too_many: [422, 'There are too many suppliers', 'changed'],
  precondition_required: [428, 'If-Match is missing: read the supplier', 'no'],
  internal: [500, 'Internal Server Error', 'later'],
  debug_failed: [503, 'The process could not make the file', 'later'],
  not_ready: [503, 'Bid traffic cannot be served now', 'later'],
  overloaded: [503, 'Too many calls of this kind wait: try again', 'later'],
  store_unavailable: [503, 'The store cannot be reached: try again', 'later'],
  unavailable: [503, 'Tokens cannot be verified at the moment', 'later'],
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof problems
