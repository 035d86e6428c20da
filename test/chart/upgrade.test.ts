import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { chart, manifests, needsHelm } from './helm.ts'

const run = promisify(execFile)

/** As much of the Kubernetes API as `lookup` asks for, with one Secret in it. */
async function cluster(t: Test, data: Record<string, string> | null): Promise<string> {
  const path = '/api/v1/namespaces/bids/secrets/test-bidweir'
  const resources = [{ name: 'secrets', kind: 'Secret', namespaced: true, verbs: ['get'] }]
  const metadata = { name: 'test-bidweir', namespace: 'bids' }
  const answers: Record<string, object> = {
    '/version': { major: '1', minor: '34', gitVersion: 'v1.34.0' },
    '/api': { kind: 'APIVersions', versions: ['v1'] },
    '/apis': { kind: 'APIGroupList', groups: [] },
    '/api/v1': { kind: 'APIResourceList', groupVersion: 'v1', resources },
    ...(data === null ? {} : { [path]: { kind: 'Secret', apiVersion: 'v1', metadata, data } }),
  }
  const server = createServer((request, response) => {
    const answer = answers[request.url!.split('?')[0]!]
    const missing = { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 }
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer ?? missing))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function secretOf(api: string, ...args: string[]): Promise<Record<string, string>> {
  const server = ['--dry-run=server', '--kube-apiserver', api, '--namespace', 'bids']
  const { stdout } = await run('helm', ['template', 'test', chart, ...server, ...args])
  return manifests(stdout).find(({ kind }) => kind === 'Secret')!.data!
}

t.test('an upgrade keeps the key and the password that were generated', needsHelm, async (t) => {
  const first = await secretOf(await cluster(t, null))
  t.same(Object.keys(first), ['admin-password', 'context-key-1'])
  t.same(await secretOf(await cluster(t, first)), first)
})

t.test('a new key is generated beside the ones that are kept', needsHelm, async (t) => {
  const first = await secretOf(await cluster(t, null))
  const rotated = await secretOf(
    await cluster(t, first),
    ...['--set', 'contextKeys[0].id=2,contextKeys[1].id=1'],
  )
  t.equal(rotated['context-key-1'], first['context-key-1'])
  t.match(Buffer.from(rotated['context-key-2']!, 'base64').toString(), /^[\w-]{43}$/)
})

t.test('a password that is given wins over the one that is kept', needsHelm, async (t) => {
  const kept = await cluster(t, { 'admin-password': 'b2xk', 'context-key-1': 'b2xk' })
  const { 'admin-password': password } = await secretOf(kept, '--set', 'adminPassword=new-password')
  t.equal(password, Buffer.from('new-password').toString('base64'))
})
