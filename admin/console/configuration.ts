/** `GET /api/svc/configuration/`: the running configuration, without its secrets. */
import * as z from 'zod'
import { canSee } from '../auth/roles.ts'
import type { Route } from '../http/call.ts'

export interface ConfigurationDeps {
  suppliers(): readonly { id: string; account: string | null }[]
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
  answers: {
    200: { description: 'The configuration', content: { schema: configurationSchema } },
  },
  problems: [401, 403],
  async handler({ caller }) {
    const all = deps.configuration()
    if (caller!.account === '*') return all
    const own = new Set(
      deps
        .suppliers()
        .filter(({ account }) => canSee(caller!, account))
        .map(({ id }) => id),
    )
    const { location, currency, suppliers } = all
    return { location, currency, suppliers: suppliers.filter(({ id }) => own.has(id)) }
  },
})
