/** `GET /api/svc/configuration/`: the running configuration, as far as the caller may see it. */
import * as z from 'zod'
import { jsonAnswer, type Route } from '../http/call.ts'
import { type Suppliers, visible } from '../management/access.ts'

export interface ConfigurationDeps extends Suppliers {
  /** Without secrets. */
  configuration(): { suppliers: readonly { id: string }[]; currency: unknown; location: string }
}

const configurationSchema = z.looseObject({
  location: z.string(),
  suppliers: z.array(z.looseObject({ id: z.string() })),
})

export const configurationRoute = (deps: ConfigurationDeps): Route => ({
  method: 'GET',
  path: '/api/svc/configuration/',
  id: 'configuration',
  tag: 'service',
  summary: 'The running configuration, with secrets hidden',
  description:
    'Defaults are filled in. Account `*` sees all of it, other accounts their suppliers and the currency.',
  role: 'viewer',
  answers: { 200: jsonAnswer('The configuration', configurationSchema) },
  async handler(request) {
    const all = deps.configuration()
    if (request.caller!.account === '*') return all
    const ids = new Set(visible(deps, request).map(({ id }) => id))
    const { location, currency, suppliers } = all
    return { location, currency, suppliers: suppliers.filter(({ id }) => ids.has(id)) }
  },
})
