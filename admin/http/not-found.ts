/** What no route takes: 405 with `Allow` where another method is route (RFC 9110 15.5.6), else 404. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { problem } from './problem.ts'

interface Route {
  pattern: RegExp
  methods: Set<string>
}

/** `:id` and `:id(…)` are one part of a path, that is not empty; `*` is the rest. */
const parts = /:\w+(?:\([^)]*\))?|\*|[^:*]+/g
const patternOf = (url: string) => {
  const pattern = url.replaceAll(parts, (part) =>
    part === '*' ? '.*' : part.startsWith(':') ? '[^/]+' : RegExp.escape(part),
  )
  return new RegExp(`^${pattern}$`)
}

/** Before any plugin: it learns the routes as they are registered. */
export function notFoundHandler(app: FastifyInstance) {
  const routes = new Map<string, Route>()
  app.addHook('onRoute', ({ method, url }) => {
    const route = routes.get(url) ?? { pattern: patternOf(url), methods: new Set() }
    routes.set(url, route)
    for (const each of [method].flat()) route.methods.add(each)
  })
  return ({ method, url }: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const path = url.split('?', 1)[0]!
    const allowed = new Set<string>()
    for (const { pattern, methods } of routes.values())
      if (pattern.test(path)) for (const each of methods) allowed.add(each)
    // one that has the method but did not match, such as a name that is too long, is no resource
    if (allowed.size === 0 || allowed.has(method))
      return problem(reply, 404, 'not_found', 'No such path')
    return problem(
      reply.header('allow', [...allowed].sort().join(', ')),
      405,
      'method_not_allowed',
      `${method} is not for this path`,
    )
  }
}
