/** Kubernetes' own programs, as .ci/kubernetes builds them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithTest } from '../../support/children.ts'

const home = process.env['KUBERNETES_HOME'] ?? '/nowhere'

/** What `t.test` takes as `skip`. */
export const kubernetesAbsent = existsSync(join(home, 'bin/kube-apiserver'))
  ? false
  : 'Kubernetes not found (KUBERNETES_HOME, .ci/kubernetes builds it)'

const program = (name: string): string => join(home, 'bin', name)
/** Definitions of custom resources: files. */
export const definitions = (): string => join(home, 'crd')

export interface Running {
  child: ChildProcess
  /** The end of what it logged. */
  log(): string
}

/** Starts one program of Kubernetes, with its log in a file of `folder`. */
export function run(folder: string, name: string, args: string[], env = process.env): Running {
  const file = join(folder, `${name.split('/').at(-1)}.log`)
  const log = openSync(file, 'w')
  const child = spawn(name.includes('/') ? name : program(name), args, {
    cwd: folder,
    env,
    stdio: ['ignore', log, log],
  })
  return { child: endWithTest(child), log: () => readFileSync(file, 'utf8').slice(-4000) }
}
