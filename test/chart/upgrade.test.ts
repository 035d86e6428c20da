import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { chart, manifests, needsHelm, withoutCollector } from './helm.ts'

const execute = promisify(execFile)
const run = (args: string[]) => execute('helm', args, { env: withoutCollector })

type Secrets = Record<string, Record<string, string>>

/** As much of the Kubernetes API as `lookup` asks for, with some Secrets in it, by name. */
async function cluster(t: Test, secrets: Secrets): Promise<string> {
  const apps = { groupVersion: 'apps/v1', version: 'v1' }
  const appsGroup = { name: 'apps', versions: [apps], preferredVersion: apps }
  const deployments = [
    { name: 'deployments', kind: 'Deployment', namespaced: true, verbs: ['get'] },
  ]
  const resources = [{ name: 'secrets', kind: 'Secret', namespaced: true, verbs: ['get'] }]
  const answers: Record<string, object> = {
    '/version': { major: '1', minor: '34', gitVersion: 'v1.34.0' },
    '/api': { kind: 'APIVersions', versions: ['v1'] },
    '/apis': { kind: 'APIGroupList', groups: [appsGroup] },
    '/apis/apps/v1': { kind: 'APIResourceList', groupVersion: 'apps/v1', resources: deployments },
    '/api/v1': { kind: 'APIResourceList', groupVersion: 'v1', resources },
  }
  for (const [name, data] of Object.entries(secrets))
    answers[`/api/v1/namespaces/bids/secrets/${name}`] = {
      ...{ kind: 'Secret', apiVersion: 'v1', data },
      metadata: { name, namespace: 'bids' },
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

/** The Secrets of a rendering, by name; all of them stay when the release goes. */
async function secretsOf(t: Test, before: Secrets, ...args: string[]): Promise<Secrets> {
  const api = await cluster(t, before)
  const server = ['--dry-run=server', '--kube-apiserver', api, '--namespace', 'bids']
  const { stdout } = await run(['template', 'test', chart, ...server, ...args])
  const secrets = manifests(stdout).filter(({ kind }) => kind === 'Secret')
  for (const { metadata } of secrets)
    t.equal(metadata.annotations!['helm.sh/resource-policy'], 'keep', metadata.name)
  return Object.fromEntries(secrets.map(({ metadata, data }) => [metadata.name, data!]))
}

const [password, first, second] = [
  'test-bidweir-admin-password',
  'test-bidweir-context-key-1',
  'test-bidweir-context-key-2',
]
const both = ['--set', 'contextKeys[0].id=2,contextKeys[1].id=1']

t.test('an upgrade keeps the key and the password that were generated', needsHelm, async (t) => {
  const made = await secretsOf(t, {})
  t.same(Object.keys(made), [password, first])
  t.same(await secretsOf(t, made), made)
})

t.test('a rotation that is rolled back and made again has the same keys', needsHelm, async (t) => {
  const made = await secretsOf(t, {})
  const rotated = await secretsOf(t, made, ...both)
  t.same(rotated[first!], made[first!])
  t.match(Buffer.from(rotated[second!]!['context-key-2']!, 'base64').toString(), /^[\w-]{43}$/)
  // nothing removes a Secret that is to be kept
  const rolledBack = await secretsOf(t, rotated)
  t.same(Object.keys(rolledBack), [password, first])
  t.same(await secretsOf(t, { ...rotated, ...rolledBack }, ...both), rotated)
})

t.test('a context key is immutable, the password is not', needsHelm, async (t) => {
  const { stdout } = await run(['template', 'test', chart, '-n', 'bids'])
  const secrets = manifests(stdout).filter(({ kind }) => kind === 'Secret')
  t.same(
    secrets.map((secret) => (secret as { immutable?: boolean }).immutable ?? false),
    [false, true],
  )
})

t.test('a password that is given wins over the one that is kept', needsHelm, async (t) => {
  const kept = { [password!]: { 'admin-password': 'b2xk' } }
  const made = await secretsOf(t, kept, '--set', 'adminPassword=new-password')
  t.same(made[password!], { 'admin-password': Buffer.from('new-password').toString('base64') })
})
