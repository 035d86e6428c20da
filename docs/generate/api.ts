/** The calls of the admin listener, from the OpenAPI document. */
import { code, page, table } from './markdown.ts'

interface Operation {
  summary?: string
  security?: { bearer?: string[] }[]
  responses: Record<string, unknown>
}

export interface ApiDocument {
  info: { description: string }
  paths: Record<string, Record<string, Operation>>
}

function roleOf({ security = [] }: Operation): string {
  const [role] = security[0]?.bearer ?? []
  return role === undefined ? '' : code(role)
}

export function api({ info, paths }: ApiDocument): string {
  const rows = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => [
      method.toUpperCase(),
      code(path),
      roleOf(operation),
      operation.summary ?? '',
      Object.keys(operation.responses).join(', '),
    ]),
  )
  rows.sort(([, one = ''], [, other = '']) => (one < other ? -1 : Number(one > other)))
  return page(
    'API',
    `${info.description} The whole document is at \`/api/openapi.json\`, and as a page at \`/api/docs\`.`,
    'Each role includes those before it: `viewer`, `api`, `operator`. Calls without a role need no access token; win notices need the credential of `admin.impressions.auth`.',
    table(['method', 'path', 'role', 'summary', 'statuses'], rows),
  )
}
