import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { lastReleaseAbsent, unpackLastRelease } from '../support/last-release.ts'
import { chart, helm, kubernetes, manifests, needsHelm, withoutCollector } from './helm.ts'

const execute = promisify(execFile)
const run = (args: string[]) => execute('helm', args, { env: withoutCollector })

type Secrets = Record<string, Record<string, string>>

/** As much of the Kubernetes API as `lookup` asks for, with some Secrets in it, by name. */
async function cluster(t: Test, secrets: Secrets, immutable = false): Promise<string> {
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
      ...{ kind: 'Secret', apiVersion: 'v1', data, immutable },
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

t.test(
  'a context key is immutable, unless a chart of before made its Secret',
  needsHelm,
  async (t) => {
    const immutableOf = async (...given: [Secrets, boolean?]) => {
      const server = ['--dry-run=server', '--kube-apiserver', await cluster(t, ...given)]
      const { stdout } = await run(['template', 'test', chart, ...server, '-n', 'bids'])
      const secrets = manifests(stdout).filter(({ kind }) => kind === 'Secret')
      return secrets.map((secret) => (secret as { immutable?: boolean }).immutable ?? false)
    }
    const made = { [first!]: { 'context-key-1': 'a2V5' } }
    t.same(await immutableOf({}), [false, true])
    t.same(await immutableOf(made, true), [false, true])
    // to take it back, as a rollback to that chart would, is refused by the API server
    t.same(await immutableOf(made, false), [false, false])
  },
)

t.test('what a chart of before kept in one Secret is taken over', needsHelm, async (t) => {
  const former = { 'context-key-1': 'a2V5', 'admin-password': 'b2xk', 'database-url': 'eA==' }
  const made = await secretsOf(t, { 'test-bidweir': former })
  t.same(made, {
    [password!]: { 'admin-password': 'b2xk' },
    [first!]: { 'context-key-1': 'a2V5' },
  })
})

t.test('a password that is given wins over the one that is kept', needsHelm, async (t) => {
  const kept = { [password!]: { 'admin-password': 'b2xk' } }
  const made = await secretsOf(t, kept, '--set', 'adminPassword=new-password')
  t.same(made[password!], { 'admin-password': Buffer.from('new-password').toString('base64') })
})

t.test(
  'values of the last chart, and those of its releases that are reused, render here',
  { skip: needsHelm.skip || lastReleaseAbsent },
  async (t) => {
    const former = join(unpackLastRelease('charts/bidweir'), 'charts/bidweir')
    // `--reuse-values` has the defaults of the chart of before instead of this one's
    const reused = t.testdir({})
    cpSync(chart, reused, { recursive: true })
    cpSync(join(former, 'values.yaml'), join(reused, 'values.yaml'))
    const files = readdirSync(join(former, 'ci')).filter((file) => file.endsWith('-values.yaml'))
    t.ok(files.length > 3)
    for (const file of files)
      for (const folder of [chart, reused]) {
        const values = ['--values', join(former, 'ci', file)]
        const { ok, error } = helm('template', 'test', folder, ...kubernetes, ...values)
        t.ok(ok, `${file} ${error}`)
      }
  },
)
