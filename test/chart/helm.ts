/** helm as the chart's tests call it. */
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'

export const root = join(dirname(fileURLToPath(import.meta.url)), '../..')
export const chart = join(root, 'charts/bidweir')

/** What `t.test` takes to skip by name where helm is absent. */
export const needsHelm = {
  skip:
    spawnSync('helm', ['version', '--short']).status === 0
      ? (false as const)
      : 'helm not found (.ci/helm installs it)',
}

/** Environment of programs in Go that end before their garbage matters: its collection is a quarter of their CPU. */
export const withoutCollector = { ...process.env, GOGC: 'off' }

/** The golden files are one cluster's, whatever helm believes in. */
const kubernetes = ['monitoring.coreos.com/v1', 'gateway.networking.k8s.io/v1', 'keda.sh/v1alpha1']
  .flatMap((group) => ['--api-versions', group])
  .concat('--kube-version', '1.34.0')

export interface Rendered {
  ok: boolean
  text: string
  error: string
}

export function helm(...args: string[]): Rendered {
  const { status, stdout, stderr } = spawnSync('helm', args, {
    encoding: 'utf8',
    cwd: root,
    env: withoutCollector,
  })
  return { ok: status === 0, text: stdout, error: stderr }
}

export function template(...args: string[]): Rendered {
  return helm('template', 'test', chart, '--namespace', 'bids', ...kubernetes, ...args)
}

export interface Manifest {
  kind: string
  metadata: { name: string; annotations?: Record<string, string> }
  data?: Record<string, string>
  spec?: unknown
}

export function manifests(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document) => document.toJS() as Manifest | null)
    .filter((manifest) => manifest !== null)
}
