import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const program = fileURLToPath(new URL('../../../bench/load/main.ts', import.meta.url))

async function load(...args: string[]): Promise<{ code: number; text: string }> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk
    })
  const [code] = await once(child, 'close')
  return { code: code as number, text }
}

t.test('bids, no-bids and reasons are counted apart', async (t) => {
  let count = 0
  const server = createServer((request, response) => {
    request.resume()
    request.on('end', () => {
      if (count++ % 2 === 0) response.writeHead(204, { 'x-bidweir-reason': 'overload' }).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end('{"seatbid":[]}')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const run = await load('--url', url, '--connections', '4', '--duration', '1', '--body', 'banner')
  t.equal(run.code, 0, run.text)
  t.match(run.text, /^bids +\d+ \((49|50)/m)
  t.match(run.text, /^no-bids +\d+ \((49|50)/m)
  t.match(run.text, /^ {2}overload +\d+ \((49|50)/m)
})

t.test('a wrong option is told with what is allowed', async (t) => {
  for (const [option, value] of [
    ['--rate', 'fast'],
    ['--body', 'text'],
    ['--url', 'here'],
  ]) {
    const { code, text } = await load(option!, value!)
    t.equal(code, 64)
    t.match(text, new RegExp(`${option}: .*${value}[\\s\\S]*usage:`))
  }
})
