/** The service with its configuration file, and calls to its API byte for byte over a socket. */
import net from 'node:net'
import type { Test } from 'tap'
import { newFolder, type Running, token } from './process.ts'
import { serveBidweir } from './served-node.ts'

const json = 'application/json'

export interface Asked {
  body?: string | Buffer
  type?: string | null
  head?: Record<string, string>
  anonymous?: boolean
}

/**
 * Runs until the test ends; `ask` calls as its administrator. `start` starts it, in the process of the test unless
 * something else is given.
 */
export async function startWire(
  t: Test,
  start: (yaml: string, folder: string) => Promise<Running> = serveBidweir,
) {
  const folder = newFolder()
  const yaml = `
proxy: {listen: 127.0.0.1:0}
admin: {listen: 127.0.0.1:0}
store: {database: 'sqlite:${folder}/b.db'}
suppliers: [{id: acme, endpoints: ['http://127.0.0.1:9/'], account: a, opd: {enabled: true, holdout: 0}}]
`
  let running = await start(yaml, folder)
  t.teardown(() => running.stop())
  const bearer = await token(running)

  /** Sends a request and reads the answer to its end. */
  async function ask(method: string, path: string, asked: Asked = {}) {
    const { body, type = json, head = {}, anonymous = false } = asked
    const bytes = body === undefined ? null : Buffer.from(body as string)
    const lines = Object.entries({
      Host: 'x',
      Connection: 'close',
      ...(anonymous ? {} : { Authorization: `Bearer ${bearer}` }),
      ...(bytes === null ? {} : { 'Content-Length': String(bytes.length) }),
      ...(bytes === null || type === null ? {} : { 'Content-Type': type }),
      ...head,
    }).map(([name, value]) => `${name}: ${value}\r\n`)
    const socket = net.connect(running.adminPort, '127.0.0.1')
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`)
    if (bytes !== null) socket.write(bytes)
    const chunks: Buffer[] = []
    for await (const chunk of socket) chunks.push(chunk as Buffer)
    const [top = '', text = ''] = Buffer.concat(chunks)
      .toString()
      .split(/\r\n\r\n(.*)/s)
    const headers = new Headers(
      top
        .split('\r\n')
        .slice(1)
        .map((line): [string, string] => [
          line.slice(0, line.indexOf(':')),
          line.slice(line.indexOf(':') + 1).trim(),
        ]),
    )
    const problem = headers.get('content-type') === 'application/problem+json' && text !== ''
    // biome-ignore lint/suspicious/noExplicitAny: what any call answers
    const document = (problem ? JSON.parse(text) : null) as any
    return { status: Number(top.split(' ')[1]), headers, text, document }
  }

  return {
    ask,
    bearer,
    url: () => `http://127.0.0.1:${running.adminPort}`,
    /** kill -9, and another start on what it left. */
    async restart() {
      await running.stop('SIGKILL')
      running = await start(yaml, folder)
    },
  }
}

export const path = '/api/svc/ssp/acme/'
export const seat = {
  name: 's1',
  qps: [
    { location: 'us', value: 100 },
    { location: 'eu', value: null },
  ],
}
