/** `GET /api/svc/configuration/`: the running configuration, as far as the caller may see it. */
import * as z from 'zod'
import { jsonAnswer, type Route } from '../http/call.ts'
import { jsonType, listJson, withList } from '../http/long-json.ts'
import { type Suppliers, visible } from '../management/access.ts'

interface Configuration {
  suppliers: readonly { id: string }[]
  currency: unknown
  location: string
}

export interface ConfigurationDeps extends Suppliers {
  configuration(): Configuration
  /** A part of the configuration, with its secrets hidden. */
  shown<Part extends object>(part: Part): Part
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
  async handler(request, reply) {
    const { suppliers, ...all } = deps.configuration()
    const seesAll = request.caller!.account === '*'
    const { location, currency } = all
    const ids = new Set(visible(deps, request).map(({ id }) => id))
    const seen = seesAll ? suppliers : suppliers.filter(({ id }) => ids.has(id))
    const head = deps.shown(seesAll ? all : { location, currency })
    const list = await listJson(seen.values().map((supplier) => deps.shown(supplier)))
    return reply.type(jsonType).send(withList(head, 'suppliers', list))
  },
})
