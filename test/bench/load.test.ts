import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'

const program = fileURLToPath(new URL('../../bench/load/main.ts', import.meta.url))

async function load(...args: string[]): Promise<{ code: number; text: string; stdout: string }> {
  const child = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let [text, stdout] = ['', '']
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => {
      text += chunk
    })
  const [code] = await once(child, 'close')
  return { code: code as number, text, stdout }
}

/** A service that refuses every other request, each after `delay` milliseconds; with `null` it responds to none. */
async function startTarget(t: Test, delay: number | null = 0): Promise<string> {
  let count = 0
  const server = createServer((request, response) => {
    const respond = () => {
      if (count++ % 2 === 0) response.writeHead(204, { 'x-bidweir-reason': 'overload' }).end()
      else response.writeHead(200, { 'content-type': 'application/json' }).end('{"seatbid":[]}')
    }
    request.resume()
    if (delay !== null) request.on('end', () => setTimeout(respond, delay))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

t.test('bids, no-bids and reasons are counted apart, and progress is shown', async (t) => {
  const url = await startTarget(t)
  const run = await load('--url', url, '--connections', '4', '--duration', '1', '--body', 'banner')
  t.equal(run.code, 0, run.text)
  t.match(run.text, /^1 s of 1: \d+ responses/m)
  t.match(run.text, /^bids +\d+ \((49|50)/m)
  t.match(run.text, /^no-bids +\d+ \((49|50)/m)
  t.match(run.text, /^ {2}overload +\d+ \((49|50)/m)
})

t.test('a wrong option is refused with the allowed values', async (t) => {
  for (const [option, value] of [
    ['--rate', 'fast'],
    ['--body', 'text'],
    ['--url', 'here'],
  ]) {
    const { code, text } = await load(option!, value!)
    t.equal(code, 64)
    t.match(text, new RegExp(`${option} .*${value}[\\s\\S]*Usage:`))
  }
})

t.test('a rate that is missed fails the run, and --json prints figures alone', async (t) => {
  const url = await startTarget(t, 500)
  const slow = ['--url', url, '--connections', '1', '--duration', '2', '--json']
  const missed = await load(...slow, '--rate', '100')
  t.equal(missed.code, 1, missed.text)
  t.match(missed.text, /^failed: rate missed: \d+\/s of 100\/s$/m)
  const { failures, statuses, target } = JSON.parse(missed.stdout)
  t.match(failures, [/rate missed/])
  t.ok(statuses['204'] > 0)
  t.match(target, { rate: 100, connections: 1, body: 'mix' })
  const free = await load(...slow)
  t.equal(free.code, 0, free.text)
  t.strictSame(JSON.parse(free.stdout).failures, [])
})

t.test('a target that does not respond fails the run', async (t) => {
  const url = await startTarget(t, null)
  const { code, text } = await load('--url', url, '--connections', '1', '--duration', '1')
  t.equal(code, 1)
  t.match(text, /^failed: no response from http/m)
})
