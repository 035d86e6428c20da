/** Small proxies on packages of npm: `node node-peer.ts http-proxy|http-proxy-json|fastify PORT ORIGIN`. */
import { createHmac, randomBytes } from 'node:crypto'
import { Agent, createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import fastifyProxy from '@fastify/http-proxy'
import fastify from 'fastify'
import httpProxy from 'http-proxy'
import { rewriteJson } from '../harness/json-rewriter.ts'

const [kind = '', port = '', target = ''] = process.argv.slice(2)
const key = randomBytes(32)

/** The same job as OPD's: price, four macros, an authenticated context. */
function rewrite(body: string): string {
  if (!body.includes('SVC_OPD_CONTEXT')) return body
  return rewriteJson(body, ({ id, price: before }) => {
    const price = Math.round(before * 0.9 * 1e6) / 1e6
    const claims = Buffer.from(JSON.stringify({ b: id, i: before, o: price, t: Date.now() }))
    const tag = createHmac('sha256', key).update(claims).digest()
    const context = Buffer.concat([claims, tag]).toString('base64url')
    return { price, inText: String(before), outText: String(price), context }
  })
}

function passOn(from: IncomingMessage, to: ServerResponse): void {
  const chunks: Buffer[] = []
  from.on('data', (chunk: Buffer) => chunks.push(chunk))
  from.on('end', () => {
    const body = Buffer.concat(chunks)
    const json = from.statusCode === 200 && from.headers['content-encoding'] === undefined
    const out = json ? Buffer.from(rewrite(body.toString())) : body
    const headers = { ...from.headers }
    delete headers.connection
    if (from.statusCode !== 204) headers['content-length'] = String(out.length)
    to.writeHead(from.statusCode ?? 502, headers)
    to.end(out)
  })
}

async function withHttpProxy(json: boolean): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8192 })
  const proxy = httpProxy.createProxyServer({ target, agent, selfHandleResponse: json })
  proxy.on('error', (_error, _request, response) => response.end())
  if (json) proxy.on('proxyRes', (from, _request, to) => passOn(from, to as ServerResponse))
  createServer((request, response) => proxy.web(request, response)).listen(
    Number(port),
    '127.0.0.1',
    8192,
  )
}

const kinds: Readonly<Record<string, () => Promise<unknown>>> = {
  'http-proxy': () => withHttpProxy(false),
  'http-proxy-json': () => withHttpProxy(true),
  async fastify() {
    const app = fastify()
    await app.register(fastifyProxy, {
      upstream: target,
      undici: { connections: 8192, pipelining: 1 },
    })
    await app.listen({ port: Number(port), host: '127.0.0.1', backlog: 8192 })
  },
}

await kinds[kind]!()
