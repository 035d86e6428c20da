/** The console at `/`: one page without resources of other hosts. Its figures come from the API. */
import { readdir, readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { addRoute, type Call } from '../http/call.ts'
import { compressed } from '../http/compressed.ts'

const modules: Readonly<Record<string, string>> = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  '@preact/signals': '@preact/signals',
  '@preact/signals-core': '@preact/signals-core',
  uplot: 'uplot/dist/uPlot.esm.js',
}
const styles = 'uplot/dist/uPlot.min.css'

const pathOf = (name: string) => `/dashboard/lib/${name.replace(/^@/, '').replaceAll('/', '-')}.js`

const names = Object.keys(modules)
  .map((name) => name.replace(/[/@]/g, '\\$&'))
  .join('|')
const imported = new RegExp(`(\\bfrom\\s*|\\bimport\\s*\\(?\\s*)(["'])(${names})\\2`, 'g')

/** Replaces the names of packages in import statements by their paths. */
const withPaths = (text: string): string =>
  text.replace(
    imported,
    (_, before: string, quote: string, name: string) => `${before}${quote}${pathOf(name)}${quote}`,
  )

const textOf = (specifier: string) => readFile(new URL(import.meta.resolve(specifier)), 'utf8')
const withoutMap = (text: string) => text.replace(/\/\/# sourceMappingURL=.*\s*$/, '')

/**
 * The libraries of the page by path, from node_modules. A browser needs paths where the modules import packages by
 * name, and an import map would need an inline script, which the policy of the page forbids.
 */
async function libraries(): Promise<[path: string, text: string][]> {
  const found = Object.entries(modules).map(
    async ([name, specifier]): Promise<[string, string]> => [
      pathOf(name),
      withPaths(withoutMap(await textOf(specifier))),
    ],
  )
  const css = async (): Promise<[string, string]> => [
    '/dashboard/lib/uplot.css',
    await textOf(styles),
  ]
  return Promise.all([...found, css()])
}

interface DashboardDeps {
  /** The embedded realm, where users log in on the page; null: users log in at the issuer. */
  realm: string | null
  /** The external issuer, and the id of the page there; null with an embedded realm. */
  external: { issuer: string; clientId: string } | null
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
}

const headersFor = (connect: string) => ({
  'content-security-policy': `default-src 'none'; script-src 'self'; style-src 'self'; connect-src ${connect}; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-cache',
})

const pageCall: Call = {
  method: 'GET',
  path: '/',
  id: 'dashboard',
  tag: 'service',
  summary: 'The console',
  role: null,
  answers: { 200: { description: 'The page', content: { schema: z.string(), type: 'text/html' } } },
  problems: [],
}

/** The files of the page by path. */
async function files(): Promise<Map<string, { type: string; body: string }>> {
  const folder = new URL('./page/', import.meta.url)
  const found = new Map<string, { type: string; body: string }>()
  for (const name of await readdir(folder, { recursive: true })) {
    const type = types[extname(name)]
    if (type === undefined) continue
    const text = await readFile(new URL(name, folder), 'utf8')
    const path = name === 'index.html' ? '/' : `/dashboard/${name}`
    found.set(path, { type, body: name.endsWith('.js') ? withPaths(text) : text })
  }
  for (const [path, body] of await libraries())
    found.set(path, { type: types[extname(path)]!, body })
  return found
}

/**
 * The plugin that serves the console's files.
 *
 * @param deps `external`: the issuer that the page asks for tokens, null: this listener, for `realm`
 */
export function dashboard({ realm, external }: DashboardDeps): FastifyPluginAsync {
  // the page asks the issuer for its tokens
  const connect = external === null ? "'self'" : `'self' ${new URL(external.issuer).origin}`
  const headers = headersFor(connect)
  return async (app) => {
    app.addHook('onSend', compressed)
    for (const [path, { type, body }] of await files()) {
      const handler = async (_request: FastifyRequest, reply: FastifyReply) =>
        reply.headers(headers).type(type).send(body)
      if (path === pageCall.path) addRoute(app, { ...pageCall, handler })
      else app.get(path, { exposeHeadRoute: true }, handler)
    }
    app.get('/dashboard/settings.json', { exposeHeadRoute: true }, async (_request, reply) =>
      reply.header('cache-control', 'no-store').send({ realm, external }),
    )
  }
}
