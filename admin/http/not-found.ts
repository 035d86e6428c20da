/** Requests that match no route: 405 with `Allow` if another method exists for the path (RFC 9110 15.5.6), else 404. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { problem } from './problem.ts'

interface Route {
  pattern: RegExp
  methods: Set<string>
}

/** `:id` and `:id(…)` match one non-empty path segment, `*` matches the rest. */
const parts = /:\w+(?:\([^)]*\))?|\*|[^:*]+/g
const patternOf = (url: string) => {
  const pattern = url.replaceAll(parts, (part) =>
    part === '*' ? '.*' : part.startsWith(':') ? '[^/]+' : RegExp.escape(part),
  )
  return new RegExp(`^${pattern}$`)
}

/** Must be called before any plugin: it collects routes as they are registered. */
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
    reply.header('cache-control', 'no-store')
    for (const { pattern, methods } of routes.values())
      if (pattern.test(path)) for (const each of methods) allowed.add(each)
    // if the method exists but the route did not match, for example because a name is too long, there is no such
    // resource
    if (allowed.size === 0 || allowed.has(method))
      return problem(reply, 404, 'not_found', 'No such path')
    return problem(
      reply.header('allow', [...allowed].sort().join(', ')),
      405,
      'method_not_allowed',
      `${method} is not allowed for this path`,
    )
  }
}
