/** A real API server on a real etcd: no node, so nothing runs, but everything is accepted or refused as it would be. */
import { execFile } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parse, stringify } from 'yaml'
import { freePort } from '../../support/postgres.ts'
import { startLimit, until } from '../../support/until.ts'
import type { Manifest, Rendered } from '../helm.ts'
import { definitions, run } from './kubernetes.ts'

interface Answer {
  status: number
  /** The server's own, such as those of Pod Security. */
  warnings: string[]
  // biome-ignore lint/suspicious/noExplicitAny: what the API server answers
  body: any
}

export interface ControlPlane {
  folder: string
  api(method: string, path: string, body?: object, type?: string): Promise<Answer>
  /** A file for `--kubeconfig`, of a user who may do everything. */
  kubeconfig: string
  helm(...args: string[]): Promise<Rendered>
  /** Asks whether the server takes an object, unknown fields refused; nothing is stored. */
  offer(object: Manifest, namespace: string): Promise<Answer>
  /** Makes the kinds of Prometheus, of the Gateway API and of KEDA known. */
  defineMore(): Promise<void>
  close(): Promise<void>
}

/**
 * helm does not read the schemas of all kinds, which is more than half of its CPU: the API server itself warns of unknown
 * fields, and helm prints that.
 */
export const unchecked = ['--disable-openapi-validation']

export async function startControlPlane(
  host = '127.0.0.1',
  more: (file: (name: string, content: string) => string) => string[] = () => [],
) {
  const folder = mkdtempSync(join(tmpdir(), 'bidweir-k8s-'))
  const file = (name: string, content: string) => {
    // helm warns of a configuration that others may read
    writeFileSync(join(folder, name), content, { mode: 0o600 })
    return join(folder, name)
  }
  const etcdUrl = `http://127.0.0.1:${await freePort()}`
  const etcd = run(folder, 'etcd', [
    ...['--data-dir', join(folder, 'etcd'), '--unsafe-no-fsync', '--log-level=warn'],
    ...['--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
    // Port 0 might become that of the clients.
    ...['--listen-peer-urls', `http://127.0.0.1:${await freePort()}`],
  ])
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const key = file('sa.key', privateKey.export({ type: 'pkcs1', format: 'pem' }).toString())
  const pub = file('sa.pub', publicKey.export({ type: 'spki', format: 'pem' }).toString())
  const port = await freePort()
  const options = [
    `--etcd-servers=${etcdUrl}`,
    ...[`--bind-address=${host}`, `--secure-port=${port}`, `--cert-dir=${join(folder, 'tls')}`],
    ...[
      `--token-auth-file=${file('tokens', 'admin,admin,admin,system:masters')}`,
      '--authorization-mode=Node,RBAC',
    ],
    ...['--service-cluster-ip-range=10.96.0.0/16', '--endpoint-reconciler-type=none'],
    ...[`--service-account-key-file=${pub}`, `--service-account-signing-key-file=${key}`],
    '--service-account-issuer=https://kubernetes.default.svc',
    ...more(file),
  ]
  // The collection of garbage by default is a fifth of the CPU of the API server and of helm.
  const seldom = { ...process.env, GOGC: '200' }
  const apiserver = run(folder, 'kube-apiserver', options, seldom)
  const server = `https://${host}:${port}`

  const api = async (method: string, path: string, body?: object, type = 'application/json') => {
    const headers = { authorization: 'Bearer admin', 'content-type': type }
    // its certificate is its own
    const asked = request(server + path, { method, headers, rejectUnauthorized: false })
    asked.end(body === undefined ? undefined : JSON.stringify(body))
    const [response] = await once(asked, 'response')
    const said = await text(response)
    const warnings = [response.headers['warning'] ?? []].flat() as string[]
    const json = String(response.headers['content-type']).includes('json')
    return { status: response.statusCode as number, warnings, body: json ? JSON.parse(said) : said }
  }
  const kubeconfig = file(
    'admin.yaml',
    stringify({
      ...{ apiVersion: 'v1', kind: 'Config', 'current-context': 'c' },
      clusters: [{ name: 'c', cluster: { server, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'u', user: { token: 'admin' } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    }),
  )
  const helm = (...args: string[]) =>
    new Promise<Rendered>((resolve) => {
      const env = {
        ...seldom,
        KUBECONFIG: kubeconfig,
        HELM_CACHE_HOME: join(folder, 'helm'),
      }
      execFile('helm', args, { env, maxBuffer: 1 << 26 }, (error, text, stderr) =>
        resolve({ ok: error === null, text, error: stderr }),
      )
    })

  const plurals = new Map<string, Promise<Answer>>()
  const offer = async (object: Manifest, namespace: string) => {
    const { apiVersion, kind } = object as Manifest & { apiVersion: string }
    const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
    if (!plurals.has(base)) plurals.set(base, api('GET', base))
    const { body } = await plurals.get(base)!
    const found = (body.resources as { kind: string; name: string }[]).find(
      (resource) => resource.kind === kind && !resource.name.includes('/'),
    )
    const path = `${base}/namespaces/${namespace}/${found?.name}`
    return api('POST', `${path}?dryRun=All&fieldValidation=Strict`, object)
  }
  const defineMore = async () => {
    for (const name of readdirSync(definitions())) {
      const definition = parse(readFileSync(join(definitions(), name), 'utf8'))
      await api('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
      const { group, versions } = definition.spec
      const { name: version } = versions.find((version: { storage: boolean }) => version.storage)
      const path = `/apis/${group}/${version}/${definition.spec.names.plural}`
      await until(async () => (await api('GET', path)).status === 200, { limit: startLimit })
    }
  }
  const close = async () => {
    for (const { child } of [apiserver, etcd]) {
      const gone = child.exitCode === null ? once(child, 'exit') : undefined
      child.kill('SIGKILL')
      await gone
    }
    rmSync(folder, { recursive: true, force: true })
  }
  const ready = () =>
    api('GET', '/readyz').then(
      ({ status }) => status === 200,
      () => {
        if (apiserver.child.exitCode !== null) throw new Error(apiserver.log() + etcd.log())
        return false
      },
    )
  await until(ready, { what: 'an API server that is ready', limit: startLimit })
  return { folder, api, kubeconfig, helm, offer, defineMore, close } satisfies ControlPlane
}

/** Makes a namespace in which Pod Security refuses, and warns of, what is not `restricted`. */
export async function restricted({ api }: ControlPlane, name: string): Promise<void> {
  const level = (mode: string) => [`pod-security.kubernetes.io/${mode}`, 'restricted']
  const labels = Object.fromEntries(['enforce', 'warn', 'audit'].map(level))
  await api('POST', '/api/v1/namespaces', { metadata: { name, labels } })
}
